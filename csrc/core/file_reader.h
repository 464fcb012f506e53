// Reads of a run's packets from local files: few calls, few open files, and never bytes of a replaced file.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/video.h"

namespace vd {

// Open files of the process, least recently used closed when nobody reads them.
class OpenFiles {
  public:
    class File {
      public:
        explicit File(int fd) : fd(fd) {}
        ~File();
        File(const File&) = delete;
        File& operator=(const File&) = delete;
        const int fd;
    };

    explicit OpenFiles(size_t limit) : limit_(limit) {}
    // Throws Error(unreadable): the file cannot be opened, or is not in the state that was indexed.
    std::shared_ptr<File> open(const Video& video);

  private:
    const size_t limit_;
    std::mutex mutex_;
    std::list<std::pair<std::string, std::shared_ptr<File>>> files_;  // most recently used first
};

// The packets of one run, read as they are needed.
class PacketReader {
  public:
    PacketReader(OpenFiles& files) : files_(files) {}

    // Begin a run: `packets` in the order in which they will be asked for. Payloads, where given, are those bytes.
    void begin(const Video& video, const std::vector<int64_t>& packets, const std::vector<std::string>* payloads);

    // Bytes of the next packet, which may be changed in place, with room behind them; shorter than indexed only where
    // the file ends. Valid until the next call.
    struct Bytes {
        unsigned char* data;
        size_t size, wanted;
    };
    Bytes next();

    unsigned long long bytes_read() const { return bytes_read_; }

  private:
    void read_group();

    OpenFiles& files_;
    const Video* video_ = nullptr;
    const std::vector<std::string>* payloads_ = nullptr;
    std::vector<int64_t> packets_;
    size_t at_ = 0;         // next packet of packets_
    size_t group_end_ = 0;  // packets before this one are in buffer_
    int64_t group_offset_ = 0;
    size_t group_size_ = 0;
    std::vector<unsigned char> buffer_;
    std::shared_ptr<OpenFiles::File> file_;
    unsigned long long bytes_read_ = 0;
};

}  // namespace vd
