#include "core/engine.h"

#include <unistd.h>

#include <algorithm>

#include "core/driver/driver.h"

namespace vd {

namespace {
constexpr size_t kOpenFiles = 64;
// Decoders of every format a data set has, for each session, without making them anew: 14 of 640x480 take 0.4 GB.
constexpr size_t kDecoderBytes = size_t{8} << 30;
}  // namespace

class Engine::Current {
  public:
    explicit Current(driver::Context context) { VD_CHECK(ctxPushCurrent, context); }
    ~Current() {
        driver::Context popped = nullptr;
        driver::functions().ctxPopCurrent(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
};

Engine::Engine(int device, size_t sessions)
    : device_(device),
      session_count_(std::max<size_t>(sessions, 1)),
      pid_(getpid()),
      pool_(kDecoderBytes),
      files_(kOpenFiles) {
    int count = 0;
    VD_CHECK(deviceGetCount, &count);
    if (device < 0 || device >= count)
        throw Error(ErrorKind::unavailable, "no CUDA device " + std::to_string(device) + "; there are " +
                                                std::to_string(count) + ". See CUDA_VISIBLE_DEVICES.");
    driver::Device handle = 0;
    VD_CHECK(deviceGet, &handle, device);
    VD_CHECK(primaryCtxRetain, &context_, handle);  // torch uses the same context
}

Engine::~Engine() {
    close();
}

void Engine::require_own_process() const {
    if (getpid() != pid_)
        throw Error(ErrorKind::forked,
                    "this process was forked after CUDA was used, and CUDA does not survive a fork.");
}

std::shared_ptr<Ticket> Engine::submit(std::vector<std::unique_ptr<Run>> runs, driver::Stream stream) {
    require_own_process();
    auto ticket = std::make_shared<Ticket>(runs.size(), events_);
    {
        Current current(context_);
        ticket->ready = events_->take();
        VD_CHECK(eventRecord, ticket->ready, stream);
    }
    for (size_t k = 0; k < runs.size(); k++) {
        runs[k]->ticket = ticket;
        runs[k]->number = k;
        auto& slots = runs[k]->slots;
        std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.picture < b.picture; });
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) throw Error(ErrorKind::unavailable, "this engine is closed. Make a new one.");
    while (threads_.size() < session_count_) threads_.emplace_back([this] { work(); });
    for (auto& run : runs) queue_.push_back(std::move(run));
    if (runs.size() == 1)
        changed_.notify_one();
    else
        changed_.notify_all();
    return ticket;
}

void Engine::work() {
    std::unique_ptr<Session> session;
    bool current = false;
    // Tried again for every run until it succeeds: memory of the GPU may be short for a while.
    auto begin_session = [&] {
        if (!current) VD_CHECK(ctxPushCurrent, context_);
        current = true;
        // A capture of the user's in another thread must not be broken by what this one calls.
        int mode = driver::kCaptureModeRelaxed;
        VD_CHECK(threadExchangeStreamCaptureMode, &mode);
        session = std::make_unique<Session>(pool_, caps_, files_, *events_, counters_);
    };
    auto refuse = [&](Run& run, ErrorKind kind, const std::string& message) {
        RunResult result;
        result.failed = true;
        result.kind = kind;
        result.message = message;
        run.ticket->finish(run.number, std::move(result), this, nullptr);
    };
    for (;;) {
        std::unique_ptr<Run> run;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            if (queue_.empty() && session && !session->resting()) {
                lock.unlock();
                session->rest();  // nothing comes behind that would make it useful to wait
                lock.lock();
            }
            changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
            if (queue_.empty()) break;
            run = std::move(queue_.front());
            queue_.pop_front();
        }
        if (run->ticket->cancelled()) {
            refuse(*run, ErrorKind::cancelled, "cancelled");
            continue;
        }
        try {
            if (!session) begin_session();
        } catch (const Error& error) {
            refuse(*run, error.kind, error.what());
            continue;
        }
        session->execute(std::move(run));
    }
    session.reset();
    driver::Context popped = nullptr;
    if (current) driver::functions().ctxPopCurrent(&popped);
}

void Engine::close() {
    if (getpid() != pid_) {
        // The threads are not in this process, and the context is not usable: let go of everything as it is.
        for (auto& thread : threads_) new std::thread(std::move(thread));
        threads_.clear();
        return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (closed_) return;
        closed_ = true;
        for (auto& run : queue_) run->ticket->cancel();
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    try {
        Current current(context_);
        pool_.clear();
        events_->clear();
    } catch (const Error&) {
        // The context has been destroyed, and all that was in it.
    }
    driver::functions().primaryCtxRelease(device_);
}

void Engine::order_before(const Ticket& ticket, driver::Stream stream) {
    require_own_process();
    Current current(context_);
    ticket.order_before(stream);
}

void Engine::synchronize(const Ticket& ticket) {
    require_own_process();
    Current current(context_);
    ticket.synchronize();
}

EngineStatistics Engine::statistics() {
    const DecoderPool::Counts decoders = pool_.counts();
    std::lock_guard<std::mutex> lock(mutex_);
    return {counters_.decoded,  counters_.copied,  counters_.runs,   counters_.bytes_read,
            counters_.errors,   counters_.parsers, decoders.created, decoders.reconfigured,
            decoders.destroyed, queue_.size(),     threads_.size()};
}

driver::DecodeCaps Engine::caps(int codec, int chroma, int depth) {
    require_own_process();
    Current current(context_);
    return caps_.get(codec, chroma, depth);
}

}  // namespace vd
