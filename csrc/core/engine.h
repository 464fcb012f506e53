// The engine of one GPU: session threads over one queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/session.h"

namespace vd {

struct EngineStatistics {
    unsigned long long decoded, copied, runs, bytes_read, errors, parsers;
    unsigned long long decoders_created, decoders_reconfigured, decoders_destroyed;
    size_t queued, sessions;
};

class Engine {
  public:
    // Throws Error(unavailable): no driver, or no such device. Threads start with the first submission.
    Engine(int device, size_t sessions);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Queues runs. Slots may be written to once what is queued on `stream` (null: the default stream) has ended.
    // Throws Error(forked), Error(unavailable) after `close`.
    std::shared_ptr<Ticket> submit(std::vector<std::unique_ptr<Run>> runs, driver::Stream stream);

    // Cancels what is queued, ends the threads and gives everything back. Further calls do nothing.
    void close();

    void order_before(const Ticket& ticket, driver::Stream stream);
    void synchronize(const Ticket& ticket);
    EngineStatistics statistics();
    driver::DecodeCaps caps(int codec, int chroma, int depth);
    int device() const { return device_; }

  private:
    class Current;  // the device's context, current on the calling thread for a while

    void require_own_process() const;
    void work();

    const int device_;
    const size_t session_count_;
    const long pid_;
    driver::Context context_ = nullptr;
    DecoderPool pool_;
    Caps caps_;
    OpenFiles files_;
    std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
    Counters counters_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<Run>> queue_;
    std::vector<std::thread> threads_;
    bool closed_ = false;
};

}  // namespace vd
