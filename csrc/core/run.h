// What is submitted: runs of pictures with slots for the asked ones, and the ticket that tells when they have ended.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/driver/types.h"
#include "core/error.h"
#include "core/video.h"

namespace vd {

// Shown size in pixels, chroma format, bits per sample.
struct PictureFormat {
    int width = 0, height = 0, chroma = driver::k420, depth = 8;
    bool operator==(const PictureFormat& other) const {
        return width == other.width && height == other.height && chroma == other.chroma && depth == other.depth;
    }
};

// Device memory of the caller for one asked picture. Rows of `pitch` bytes: `height` of luma, then for 4:2:0
// (height + 1) / 2 of interleaved Cb and Cr, for 4:4:4 twice `height` of Cb and of Cr, for monochrome none. Samples of
// more than 8 bits take two bytes, the value in the high bits.
struct Slot {
    int64_t picture = 0;
    driver::DevicePtr address = 0;
    size_t pitch = 0;
    PictureFormat format;
};

// What became of a run.
struct RunResult {
    bool failed = false;  // as a whole; `kind` and `message` say why
    ErrorKind kind = ErrorKind::driver;
    std::string message;
    std::vector<int64_t> missing;  // asked pictures that never came out
    std::vector<int64_t> bad;      // fed pictures that are short or that the hardware reports as damaged
    PictureFormat found;           // with kind `format`
};

class EventPool;

class Ticket {
  public:
    Ticket(size_t runs, std::shared_ptr<EventPool> events) : events_(std::move(events)), results_(runs), left_(runs) {}
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    bool done() const;
    // False where the time is over first; negative waits for ever.
    bool wait(double timeout_s) const;
    void cancel() { cancelled_ = true; }
    bool cancelled() const { return cancelled_; }
    const std::vector<RunResult>& results() const { return results_; }  // once done

    // Makes a stream of the caller wait until all copies into slots have ended; once done.
    void order_before(driver::Stream stream) const;
    // Blocks until they have; once done.
    void synchronize() const;

    // The slots may be written to from this event on; recorded by `submit` on the caller's stream, may be null.
    driver::Event ready = nullptr;

    // By sessions: the end of a run, whose copies are all in front of `copied`; null where there were none.
    void finish(size_t run, RunResult result, const void* session, driver::Event copied);

  private:
    std::shared_ptr<EventPool> events_;  // outlives the engine where a ticket does
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::vector<RunResult> results_;
    size_t left_;
    std::atomic<bool> cancelled_{false};
    std::map<const void*, driver::Event> copied_;  // the last event of each session is behind all its others
};

struct Run {
    std::shared_ptr<const Video> video;
    std::vector<int32_t> pictures;  // to feed, in decode order; the first is a sync picture
    std::vector<Slot> slots;
    std::unique_ptr<std::vector<std::string>> payloads;  // bytes of all packets in order; null: read the video's file
    std::shared_ptr<Ticket> ticket;
    size_t number = 0;  // within the ticket
};

// Events, kept for reuse: making one costs more than recording it.
class EventPool {
  public:
    driver::Event take();  // the calling thread has the context current
    void give_back(driver::Event event);
    void clear();  // likewise; those still out are destroyed when they are given back

  private:
    const long pid_ = getpid();
    std::mutex mutex_;
    std::vector<driver::Event> free_;
    bool cleared_ = false;
};

}  // namespace vd
