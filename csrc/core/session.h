// One session: a parser and a decoder on a thread of the engine, fed with one run after another.
//
//   run ─▶ packets ─▶ parser ─▶ decode callback ─▶ decoder (asynchronous)
//                         └───▶ display callback ─▶ pending ─(several pictures later)─▶ map, copy to slot, unmap
//
// Asked pictures wait in `pending` while the hardware works on the next ones, also across runs, so that the thread
// never waits for a picture that has just been handed over. Each run ends when its last picture has been copied.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "core/caps.h"
#include "core/decoder_pool.h"
#include "core/file_reader.h"
#include "core/run.h"

namespace vd {

struct Counters {
    std::atomic<unsigned long long> decoded{0}, copied{0}, runs{0}, bytes_read{0}, errors{0}, parsers{0};
};

class Session {
  public:
    Session(DecoderPool& pool, Caps& caps, OpenFiles& files, EventPool& events, Counters& counters);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Feeds a run; its ticket hears of its end now or, when its pictures have been copied, during a later call.
    void execute(std::unique_ptr<Run> run);
    // Whether `rest` would do nothing.
    bool resting() const { return pending_.empty() && !decoder_; }
    // Copies everything that is pending and gives the decoder to the pool: the next run may well be another session's.
    void rest();

  private:
    enum class SlotState : unsigned char { waiting, pending, copied, missing };
    // A run that is being fed, or that has been fed and has pictures to be copied yet.
    struct Active {
        std::unique_ptr<Run> run;
        RunResult result;
        std::vector<SlotState> states;  // by slot
        size_t left = 0;                // slots that are waiting or pending
        bool feeding = true;
        bool ordered = false;  // the session's stream waits for the slots to be free
        bool copied = false;   // anything
    };
    struct Shown {
        driver::DisplayInfo info;
        std::shared_ptr<Active> active;
        size_t slot;
        int left, top;  // of the shown area, which may change while it waits
    };
    struct Mapped {
        driver::DevicePtr address;
        driver::Event copied;
        bool recorded;  // whether `copied` has been recorded behind the copy
    };
    struct Surface {  // what was last decoded into it
        std::shared_ptr<Active> active;
        int64_t picture = -1;
    };

    static int on_sequence(void* self, driver::VideoFormat* format);
    static int on_decode(void* self, driver::PictureParams* params);
    static int on_display(void* self, driver::DisplayInfo* info);
    // Runs a callback's body; what it throws is kept, since exceptions must not cross the driver's C code.
    template <class Body>
    int guarded(Body body);

    // Copies everything that is pending.
    void flush();
    void feed(Active& active);
    void feed_picture(Active& active, int64_t picture, bool first);
    void parse(const unsigned char* data, size_t size, int64_t picture, unsigned long flags);
    void use_parser_for(const std::shared_ptr<const Video>& video);
    void destroy_parser();
    int start(const driver::VideoFormat& format);
    // Throws Error(format) where pictures are not what a slot of the current run is for.
    void require_found(const Slot& slot);
    void show(const driver::DisplayInfo& info);
    void copy_oldest();
    void copy(const Shown& shown);
    void check_status(int surface, Surface& content);
    void unmap(size_t kept);
    void settle(Active& active);
    void fail(Active& active, ErrorKind kind, const std::string& message);

    DecoderPool& pool_;
    Caps& caps_;
    EventPool& events_;
    Counters& counters_;
    PacketReader reader_;
    std::vector<unsigned char> scratch_, with_blob_;
    driver::Stream stream_ = nullptr;
    std::vector<driver::Event> spare_events_;
    std::deque<Mapped> mapped_;  // pictures whose copy may be under way, oldest first
    driver::Parser parser_ = nullptr;
    bool parser_usable_ = false;  // false after an error: what it would go on with is not known
    std::shared_ptr<const Video> parser_video_;
    std::unique_ptr<PooledDecoder> decoder_;
    driver::VideoFormat format_{};
    PictureFormat found_{};  // of the pictures that the parser gives
    std::shared_ptr<Active> current_;
    std::deque<Shown> pending_;
    std::vector<Surface> surfaces_;
    std::exception_ptr trapped_;
    int64_t feeding_ = -1;           // picture whose packets the parser gets
    unsigned decode_callbacks_ = 0;  // since feeding it began
    int32_t parameter_sets_ = -1;    // which are in force in the parser
};

}  // namespace vd
