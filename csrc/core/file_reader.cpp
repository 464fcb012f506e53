#include "core/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace vd {

namespace {

// Packets closer than this are read by one call, which costs more than the bytes between them.
constexpr int64_t kGapBytes = 64 * 1024;
// A long run is read in pieces, so that a session's buffer stays small.
constexpr int64_t kGroupBytes = 4 * 1024 * 1024;
constexpr size_t kPadding = 64;

void require_unchanged(int fd, const Video& video) {
    struct stat status{};
    if (fstat(fd, &status) != 0)
        throw Error(ErrorKind::unreadable, video.name + ": cannot be read: " + std::strerror(errno) + ".");
    const int64_t mtime_ns = static_cast<int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
    const Identity& want = video.identity;
    if (status.st_size != want.size_bytes || mtime_ns != want.mtime_ns ||
        static_cast<int64_t>(status.st_ino) != want.inode)
        throw Error(ErrorKind::unreadable, video.name + ": changed while in use. Open it again.");
}

}  // namespace

OpenFiles::File::~File() {
    ::close(fd);
}

std::shared_ptr<OpenFiles::File> OpenFiles::open(const Video& video) {
    // A path that was replaced is another file: identity is part of the key.
    const std::string key =
        video.path + '\0' + std::to_string(video.identity.inode) + ':' + std::to_string(video.identity.mtime_ns);
    std::shared_ptr<File> file;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        auto found = std::find_if(files_.begin(), files_.end(), [&](const auto& entry) { return entry.first == key; });
        if (found != files_.end()) {
            file = found->second;
            files_.splice(files_.begin(), files_, found);
        }
    }
    if (!file) {
        const int fd = ::open(video.path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            throw Error(ErrorKind::unreadable, video.name + ": cannot be opened: " + std::strerror(errno) + ".");
        file = std::make_shared<File>(fd);
        std::lock_guard<std::mutex> lock(mutex_);
        files_.emplace_front(key, file);
        if (files_.size() > limit_) files_.pop_back();
    }
    require_unchanged(file->fd, video);
    return file;
}

void PacketReader::begin(const Video& video, const std::vector<int64_t>& packets,
                         const std::vector<std::string>* payloads) {
    video_ = &video;
    packets_ = packets;
    payloads_ = payloads;
    at_ = group_end_ = 0;
    file_ = payloads || packets.empty() ? nullptr : files_.open(video);
}

PacketReader::Bytes PacketReader::next() {
    const int64_t packet = packets_[at_];
    const size_t wanted = static_cast<size_t>(video_->packet_size[packet]);
    if (payloads_) {
        const std::string& payload = (*payloads_)[at_++];
        buffer_.resize(std::max(buffer_.size(), payload.size() + kPadding));
        std::memcpy(buffer_.data(), payload.data(), payload.size());
        return {buffer_.data(), payload.size(), wanted};
    }
    if (at_ >= group_end_) read_group();
    at_++;
    const size_t begin = static_cast<size_t>(video_->packet_offset[packet] - group_offset_);
    const size_t there = begin < group_size_ ? std::min(wanted, group_size_ - begin) : 0;
    return {buffer_.data() + begin, there, wanted};
}

void PacketReader::read_group() {
    group_offset_ = video_->packet_offset[packets_[at_]];
    int64_t end = group_offset_ + video_->packet_size[packets_[at_]];
    for (group_end_ = at_ + 1; group_end_ < packets_.size(); group_end_++) {
        const int64_t offset = video_->packet_offset[packets_[group_end_]];
        const int64_t after = offset + video_->packet_size[packets_[group_end_]];
        if (offset < group_offset_ || offset > end + kGapBytes || after - group_offset_ > kGroupBytes) break;
        end = std::max(end, after);
    }
    const size_t size = static_cast<size_t>(end - group_offset_);
    if (buffer_.size() < size + kPadding) buffer_.resize(size + kPadding);
    group_size_ = 0;
    while (group_size_ < size) {
        const ssize_t got = ::pread(file_->fd, buffer_.data() + group_size_, size - group_size_,
                                    group_offset_ + static_cast<int64_t>(group_size_));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            throw Error(ErrorKind::unreadable, video_->name + ": cannot be read: " + std::strerror(errno) + ".");
        if (got == 0) break;  // the file ends inside a packet: it comes short
        group_size_ += static_cast<size_t>(got);
    }
    bytes_read_ += group_size_;
}

}  // namespace vd
