#include "core/session.h"

#include <algorithm>
#include <cstring>

#include "core/annexb.h"
#include "core/driver/driver.h"

namespace vd {

namespace {

// Asked pictures that may wait for their copy: the hardware has several ahead of the one that is waited for
// (measured: 28,800 pictures/s from 14 sessions, against 27,000 when each is waited for at once).
constexpr size_t kPending = 6;
// Decode surfaces beyond the stream's own: those that hold pending pictures, and a few so that decoding never waits.
constexpr unsigned kExtraSurfaces = kPending + 3;

// Mapped pictures whose copies are not waited for yet. With one, a thread that copies every picture slept for each: a
// blocking wait for a copy just begun takes longer than the copy.
constexpr size_t kMappedPictures = kOutputSurfaces - 1;

bool shows_without_decoding(driver::Codec codec) {
    return codec == driver::kVp9 || codec == driver::kAv1;
}
bool shows_at_once(driver::Codec codec) {
    return codec == driver::kVp8 || shows_without_decoding(codec);
}

}  // namespace

Session::Session(DecoderPool& pool, Caps& caps, OpenFiles& files, EventPool& events, Counters& counters)
    : pool_(pool), caps_(caps), events_(events), counters_(counters), reader_(files) {
    try {
        while (spare_events_.size() <= kMappedPictures) spare_events_.push_back(events_.take());
        VD_CHECK(streamCreate, &stream_, driver::kStreamNonBlocking);
    } catch (const Error&) {
        for (driver::Event event : spare_events_) events_.give_back(event);
        throw;
    }
}

Session::~Session() {
    try {
        rest();
    } catch (const std::exception&) {
        // The context is gone, or going: there is nobody to tell.
    }
    destroy_parser();
    if (decoder_) pool_.discard(std::move(decoder_));
    driver::functions().streamDestroy(stream_);
    for (const Mapped& mapped : mapped_) events_.give_back(mapped.copied);
    for (driver::Event event : spare_events_) events_.give_back(event);
}

void Session::execute(std::unique_ptr<Run> run) {
    auto active = std::make_shared<Active>();
    active->left = run->slots.size();
    active->states.assign(run->slots.size(), SlotState::waiting);
    active->run = std::move(run);
    current_ = active;
    counters_.runs++;
    const unsigned long long before = reader_.bytes_read();
    try {
        feed(*active);
        for (size_t k = 0; !active->result.failed && k < active->states.size(); k++) {
            if (active->states[k] != SlotState::waiting) continue;
            active->states[k] = SlotState::missing;  // the stream has ended: it never comes
            active->result.missing.push_back(active->run->slots[k].picture);
            active->left--;
        }
    } catch (const Error& error) {
        fail(*active, error.kind, error.what());
    } catch (const std::exception& error) {
        fail(*active, ErrorKind::driver, error.what());
    }
    counters_.bytes_read += reader_.bytes_read() - before;
    active->feeding = false;
    current_ = nullptr;
    settle(*active);
}

void Session::flush() {
    while (!pending_.empty()) copy_oldest();
}

void Session::rest() {
    flush();
    surfaces_.clear();
    parser_usable_ = false;  // it announces a format once, and the next decoder is chosen when it does
    if (!decoder_) return;
    try {
        unmap(0);
        pool_.give_back(std::move(decoder_));
    } catch (const Error&) {
        driver::functions().streamSynchronize(stream_);  // copies from what goes with the decoder
        pool_.discard(std::move(decoder_));
        for (const Mapped& mapped : mapped_) spare_events_.push_back(mapped.copied);
        mapped_.clear();
    }
}

void Session::feed(Active& active) {
    const Run& run = *active.run;
    const Video& video = *run.video;
    std::vector<int64_t> packets;
    for (int32_t picture : run.pictures)
        for (int64_t k = video.first_packet[picture]; k < video.first_packet[picture + 1]; k++) packets.push_back(k);
    reader_.begin(video, packets, run.payloads.get());
    use_parser_for(run.video);
    bool first = true;
    for (int32_t picture : run.pictures) {
        if (run.ticket->cancelled()) throw Error(ErrorKind::cancelled, "cancelled");
        if (active.result.failed) return;  // while copying: the rest is not wanted
        feed_picture(active, picture, first);
        first = false;
    }
    feeding_ = -1;
    parse(nullptr, 0, 0, driver::kPacketEndOfStream);
}

void Session::feed_picture(Active& active, int64_t picture, bool first) {
    const Video& video = *active.run->video;
    feeding_ = picture;
    decode_callbacks_ = 0;
    bool whole = true;
    const int32_t sets = video.parameter_sets[picture];
    // Before every run, since those in the stream itself may lie before it; and where they change.
    bool with_sets = first || (video.sync[picture] && sets != parameter_sets_);
    if (with_sets) parameter_sets_ = sets;
    for (int64_t packet = video.first_packet[picture]; packet < video.first_packet[picture + 1]; packet++) {
        const PacketReader::Bytes bytes = reader_.next();
        whole = whole && bytes.size == bytes.wanted;
        Span span{bytes.data, bytes.size};
        if (video.nal_length_size) {
            bool lengths_fit = true;
            span = to_start_codes(bytes.data, bytes.size, video.nal_length_size, scratch_, lengths_fit);
            whole = whole && lengths_fit;
        }
        const std::string& blob = video.parameter_set_blobs[sets];
        if (with_sets && !blob.empty()) {
            with_blob_.assign(blob.begin(), blob.end());
            with_blob_.insert(with_blob_.end(), span.data, span.data + span.size);
            span = {with_blob_.data(), with_blob_.size()};
        }
        with_sets = false;
        if (span.size) parse(span.data, span.size, picture, driver::kPacketEndOfPicture);
    }
    // The parser leaves out what it cannot make sense of, without saying so.
    if (!whole || (decode_callbacks_ == 0 && !shows_without_decoding(video.codec)))
        active.result.bad.push_back(picture);
}

void Session::parse(const unsigned char* data, size_t size, int64_t picture, unsigned long flags) {
    driver::SourcePacket packet{flags | driver::kPacketTimestamp, size, data, picture};
    if (!data) packet.flags = flags;
    const driver::Result result = driver::functions().parseVideoData(parser_, &packet);
    if (trapped_) {
        std::exception_ptr trapped = nullptr;
        std::swap(trapped, trapped_);
        std::rethrow_exception(trapped);
    }
    driver::check(result, "cuvidParseVideoData");
}

void Session::use_parser_for(const std::shared_ptr<const Video>& video) {
    // After the end of a stream a parser begins anew, but it keeps parameter sets: one for each video.
    if (parser_ && parser_usable_ && parser_video_ == video) return;
    destroy_parser();
    driver::ParserParams params{};
    params.codec = video->codec;
    params.maxNumDecodeSurfaces = 1;  // the sequence callback gives the real number
    params.maxDisplayDelay = 0;
    params.userData = this;
    params.onSequence = on_sequence;
    params.onDecode = on_decode;
    params.onDisplay = on_display;
    VD_CHECK(createVideoParser, &parser_, &params);
    counters_.parsers++;
    parser_video_ = video;
    parser_usable_ = true;
}

void Session::destroy_parser() {
    if (parser_) driver::functions().destroyVideoParser(parser_);
    parser_ = nullptr;
}

template <class Body>
int Session::guarded(Body body) {
    if (trapped_) return 0;
    try {
        return body();
    } catch (...) {
        trapped_ = std::current_exception();
        return 0;
    }
}

int Session::on_sequence(void* self, driver::VideoFormat* format) {
    auto& session = *static_cast<Session*>(self);
    return session.guarded([&] { return session.start(*format); });
}

int Session::on_decode(void* self, driver::PictureParams* params) {
    auto& session = *static_cast<Session*>(self);
    return session.guarded([&] {
        const int surface = params->surface;
        // The parser takes a surface again as soon as it has announced its picture: one that waits there comes first.
        auto waits_here = [&](const Shown& shown) { return shown.info.surface == surface; };
        while (std::any_of(session.pending_.begin(), session.pending_.end(), waits_here)) session.copy_oldest();
        Surface& content = session.surfaces_.at(static_cast<size_t>(surface));
        session.check_status(surface, content);
        VD_CHECK(decodePicture, session.decoder_->handle, params);
        content = {session.current_, session.feeding_};
        session.decode_callbacks_++;
        session.counters_.decoded.fetch_add(1, std::memory_order_relaxed);
        return 1;
    });
}

int Session::on_display(void* self, driver::DisplayInfo* info) {
    if (!info) return 1;
    auto& session = *static_cast<Session*>(self);
    return session.guarded([&] {
        session.show(*info);
        return 1;
    });
}

int Session::start(const driver::VideoFormat& format) {
    const Run& run = *current_->run;
    const int depth = format.bitDepthLumaMinus8 + 8;
    const driver::DecodeCaps caps = caps_.get(format.codec, format.chroma, depth);
    require_supported(caps, format, run.video->name.c_str());
    const DecoderNeed need{DecoderPool::key_of(format, caps), format.codedWidth, format.codedHeight,
                           format.minNumDecodeSurfaces + kExtraSurfaces};
    bool fits = decoder_ && decoder_->fits(need);
    if (!fits || decoder_->width != need.width || decoder_->height != need.height) {
        flush();  // pictures of the runs before lie in surfaces of the old size
        unmap(0);
    }
    if (fits) {
        try {
            pool_.resize(*decoder_, need);
        } catch (const Error&) {
            pool_.discard(std::move(decoder_));  // in what state it is nobody knows
            fits = false;
        }
    }
    if (!fits) {
        if (decoder_) pool_.give_back(std::move(decoder_));
        surfaces_.clear();
        decoder_ = pool_.take(need);
    }
    surfaces_.resize(decoder_->surfaces);
    format_ = format;
    const auto& area = format.displayArea;
    found_ = {area.right - area.left, area.bottom - area.top, format.chroma, depth};
    for (const Slot& slot : run.slots) require_found(slot);
    return static_cast<int>(decoder_->surfaces);
}

void Session::require_found(const Slot& slot) {
    const PictureFormat &found = found_, &expected = slot.format;
    if (expected == found) return;
    current_->result.found = found;
    throw Error(ErrorKind::format, current_->run->video->name + ": pictures are " + std::to_string(found.width) + "x" +
                                       std::to_string(found.height) + ", " + std::to_string(found.depth) +
                                       " bit, and were expected to be " + std::to_string(expected.width) + "x" +
                                       std::to_string(expected.height) + ", " + std::to_string(expected.depth) +
                                       " bit.");
}

void Session::show(const driver::DisplayInfo& info) {
    // Not by the time stamp: the parser gives those of a reordered stream out in rising order, whatever picture they
    // came with (seen with driver 580). What was decoded into the surface is known; a packet of VP8, VP9 or AV1 may
    // instead show a surface that was decoded before, and is shown at once.
    const bool at_once = shows_at_once(current_->run->video->codec) && feeding_ >= 0;
    const int64_t picture = at_once ? feeding_ : surfaces_.at(static_cast<size_t>(info.surface)).picture;
    Active& active = *current_;
    const auto& slots = active.run->slots;  // sorted by picture
    const auto slot = std::lower_bound(slots.begin(), slots.end(), picture,
                                       [](const Slot& s, int64_t wanted) { return s.picture < wanted; });
    if (slot == slots.end() || slot->picture != picture) return;
    const size_t number = static_cast<size_t>(slot - slots.begin());
    if (active.result.failed || active.states[number] != SlotState::waiting) return;
    require_found(*slot);  // the parser announces a format once, for all runs that have it
    active.states[number] = SlotState::pending;
    pending_.push_back({info, current_, number, format_.displayArea.left, format_.displayArea.top});
    if (pending_.size() > kPending) copy_oldest();
}

void Session::copy_oldest() {
    const Shown shown = pending_.front();
    pending_.pop_front();
    // It may be a picture of a run before the one that is being fed: what goes wrong is that run's.
    try {
        copy(shown);
        shown.active->states[shown.slot] = SlotState::copied;
        shown.active->left--;
        counters_.copied.fetch_add(1, std::memory_order_relaxed);
    } catch (const Error& error) {
        fail(*shown.active, error.kind, error.what());
    }
    settle(*shown.active);
}

void Session::copy(const Shown& shown) {
    Active& active = *shown.active;
    const Slot& slot = active.run->slots[shown.slot];
    if (!active.ordered && active.run->ticket->ready) VD_CHECK(streamWaitEvent, stream_, active.run->ticket->ready, 0);
    active.ordered = true;
    driver::ProcParams process{};
    process.progressiveFrame = shown.info.progressiveFrame;
    process.topFieldFirst = shown.info.topFieldFirst;
    process.unpairedField = shown.info.repeatFirstField < 0;
    process.outputStream = stream_;
    driver::DevicePtr surface = 0;
    unsigned pitch = 0;
    unmap(kMappedPictures);  // more are mapped only when that failed before
    VD_CHECK(mapVideoFrame, decoder_->handle, shown.info.surface, &surface, &pitch, &process);  // waits for the picture
    const size_t bytes = slot.format.depth > 8 ? 2 : 1;
    const size_t width = static_cast<size_t>(slot.format.width), height = static_cast<size_t>(slot.format.height);
    const bool planar = slot.format.chroma == driver::k444;
    driver::Memcpy2D plane{};
    plane.srcMemoryType = plane.dstMemoryType = driver::kMemoryTypeDevice;
    plane.srcPitch = pitch;
    plane.dstDevice = slot.address;
    plane.dstPitch = slot.pitch;
    auto copy_rows = [&](size_t surface_row, size_t left_bytes, size_t slot_row, size_t width_bytes, size_t rows) {
        plane.srcDevice = surface + surface_row * pitch + left_bytes;
        plane.dstDevice = slot.address + slot_row * slot.pitch;
        plane.WidthInBytes = width_bytes;
        plane.Height = rows;
        const driver::Result result = driver::functions().memcpy2DAsync(&plane, stream_);
        if (result != driver::kSuccess)
            driver::check(result, ("cuMemcpy2DAsync of " + std::to_string(width_bytes) + "x" + std::to_string(rows) +
                                   " bytes from row " + std::to_string(surface_row) + " of a picture of " +
                                   std::to_string(decoder_->width) + "x" + std::to_string(decoder_->height) +
                                   ", pitch " + std::to_string(pitch) + " to pitch " + std::to_string(slot.pitch))
                                      .c_str());
    };
    const size_t left = static_cast<size_t>(shown.left), top = static_cast<size_t>(shown.top);
    // From here on the copy may be under way, and the slot is not free before it has ended.
    active.copied = true;
    try {
        if (planar) {
            for (size_t k = 0; k < 3; k++)
                copy_rows(k * decoder_->height + top, left * bytes, k * height, width * bytes, height);
        } else {
            const size_t chroma_row = (decoder_->height + 1) / 2 * 2, chroma_rows = (height + 1) / 2;
            const size_t chroma_width = (width + 1) / 2 * 2 * bytes;
            const bool has_chroma = slot.format.chroma == driver::k420;
            if (has_chroma && chroma_row == height && top == 0 && left == 0 && chroma_width == width * bytes) {
                copy_rows(0, 0, 0, width * bytes, height + chroma_rows);  // luma and chroma follow one another
            } else {
                copy_rows(top, left * bytes, 0, width * bytes, height);
                if (has_chroma)
                    copy_rows(chroma_row + top / 2, left / 2 * 2 * bytes, height, chroma_width, chroma_rows);
            }
        }
    } catch (const Error&) {
        driver::functions().streamSynchronize(stream_);  // some planes may be on their way
        driver::functions().unmapVideoFrame(decoder_->handle, surface);
        throw;
    }
    mapped_.push_back({surface, spare_events_.back(), false});
    spare_events_.pop_back();
    VD_CHECK(eventRecord, mapped_.back().copied, stream_);
    mapped_.back().recorded = true;
    unmap(kMappedPictures);  // pictures before this one, whose copies have long ended
    // This picture is complete, and so is what was decoded before it.
    for (size_t k = 0; k < surfaces_.size(); k++)
        if (surfaces_[k].active == shown.active && surfaces_[k].picture <= slot.picture)
            check_status(static_cast<int>(k), surfaces_[k]);
}

void Session::check_status(int surface, Surface& content) {
    if (!content.active) return;
    driver::GetStatus status{};
    // Codecs whose status the hardware does not tell give an error here, which says nothing of the picture.
    const bool told = driver::functions().getDecodeStatus(decoder_->handle, surface, &status) == driver::kSuccess;
    if (told && (status.status == driver::kStatusError || status.status == driver::kStatusErrorConcealed))
        content.active->result.bad.push_back(content.picture);
    content.active = nullptr;
}

// Gives back mapped pictures, oldest first, until no more than `kept` are left.
void Session::unmap(size_t kept) {
    while (mapped_.size() > kept) {
        const Mapped& mapped = mapped_.front();
        if (mapped.recorded)
            VD_CHECK(eventSynchronize, mapped.copied);
        else
            VD_CHECK(streamSynchronize, stream_);
        VD_CHECK(unmapVideoFrame, decoder_->handle, mapped.address);
        spare_events_.push_back(mapped.copied);
        mapped_.pop_front();
    }
}

void Session::settle(Active& active) {
    if (!active.run || active.feeding || active.left) return;
    driver::Event event = nullptr;
    if (active.copied) {
        try {
            event = events_.take();
            VD_CHECK(eventRecord, event, stream_);
        } catch (const Error& error) {
            driver::functions().streamSynchronize(stream_);  // nobody else will know when the copies have ended
            if (event) events_.give_back(event);
            event = nullptr;
            active.result.failed = true;
            active.result.kind = error.kind;
            active.result.message = error.what();
        }
    }
    std::unique_ptr<Run> run = std::move(active.run);
    run->ticket->finish(run->number, std::move(active.result), this, event);
}

void Session::fail(Active& active, ErrorKind kind, const std::string& message) {
    if (active.result.failed) return;
    if (kind != ErrorKind::cancelled) counters_.errors++;
    active.result.failed = true;
    active.result.kind = kind;
    active.result.message = message;
    pending_.erase(
        std::remove_if(pending_.begin(), pending_.end(), [&](const Shown& s) { return s.active.get() == &active; }),
        pending_.end());
    active.left = 0;
    if (current_.get() == &active) parser_usable_ = false;
}

}  // namespace vd
