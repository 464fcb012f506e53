#include "core/run.h"

#include <unistd.h>

#include "core/driver/driver.h"

namespace vd {

Ticket::~Ticket() {
    if (ready) events_->give_back(ready);
    for (const auto& entry : copied_) events_->give_back(entry.second);
}

bool Ticket::done() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return left_ == 0;
}

bool Ticket::wait(double timeout_s) const {
    std::unique_lock<std::mutex> lock(mutex_);
    auto ended = [&] { return left_ == 0; };
    if (timeout_s < 0) {
        changed_.wait(lock, ended);
        return true;
    }
    return changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), ended);
}

void Ticket::order_before(driver::Stream stream) const {
    for (const auto& entry : copied_) VD_CHECK(streamWaitEvent, stream, entry.second, 0);
}

void Ticket::synchronize() const {
    for (const auto& entry : copied_) VD_CHECK(eventSynchronize, entry.second);
}

void Ticket::finish(size_t run, RunResult result, const void* session, driver::Event copied) {
    std::lock_guard<std::mutex> lock(mutex_);
    results_[run] = std::move(result);
    if (copied) {
        driver::Event& last = copied_[session];
        if (last) events_->give_back(last);
        last = copied;
    }
    if (--left_ == 0) changed_.notify_all();
}

void EventPool::clear() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (driver::Event event : free_) driver::functions().eventDestroy(event);
    free_.clear();
    cleared_ = true;
}

driver::Event EventPool::take() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            driver::Event event = free_.back();
            free_.pop_back();
            return event;
        }
    }
    driver::Event event = nullptr;
    VD_CHECK(eventCreate, &event, driver::kEventBlockingSync | driver::kEventDisableTiming);
    return event;
}

void EventPool::give_back(driver::Event event) {
    if (getpid() != pid_) return;  // of a forked child: not its events, and the lock may be held by no thread of it
    std::lock_guard<std::mutex> lock(mutex_);
    if (cleared_)
        driver::functions().eventDestroy(event);
    else
        free_.push_back(event);
}

}  // namespace vd
