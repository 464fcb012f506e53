// Python's view of the core: `videodataset._core`. Python allocates, the core fills; no torch here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>

#include "core/driver/driver.h"
#include "core/engine.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copied(const Column<T>& column) {
    return {column.data(), column.data() + column.shape(0)};
}

// In a forked child the threads of an engine do not exist; ending it would wait for them for ever, so it is left alone.
std::shared_ptr<vd::Engine> make_engine(int device, size_t sessions) {
    const pid_t pid = getpid();
    return std::shared_ptr<vd::Engine>(new vd::Engine(device, sessions), [pid](vd::Engine* engine) {
        if (getpid() == pid) delete engine;
    });
}

struct PyEngine {
    std::shared_ptr<vd::Engine> engine;
};

struct PyTicket {
    std::shared_ptr<vd::Engine> engine;
    std::shared_ptr<vd::Ticket> ticket;
};

struct PyVideo {
    std::shared_ptr<const vd::Video> video;
};

PyVideo make_video(const std::string& name, std::optional<nb::bytes> path,
                   std::tuple<int64_t, int64_t, int64_t> identity, int codec, int nal_length_size,
                   Column<int64_t> packet_offset, Column<int64_t> packet_size, Column<int64_t> first_packet,
                   Column<uint8_t> sync, Column<int32_t> parameter_sets, const std::vector<nb::bytes>& blobs) {
    auto video = std::make_shared<vd::Video>();
    video->name = name;
    if (path) video->path.assign(path->c_str(), path->size());
    video->identity = {std::get<0>(identity), std::get<1>(identity), std::get<2>(identity)};
    video->codec = static_cast<vd::driver::Codec>(codec);
    video->nal_length_size = nal_length_size;
    video->packet_offset = copied(packet_offset);
    video->packet_size = copied(packet_size);
    video->first_packet = copied(first_packet);
    video->sync = copied(sync);
    video->parameter_sets = copied(parameter_sets);
    for (const nb::bytes& blob : blobs) video->parameter_set_blobs.emplace_back(blob.c_str(), blob.size());
    const size_t pictures = video->sync.size();
    if (video->first_packet.size() != pictures + 1 || video->parameter_sets.size() != pictures ||
        video->packet_offset.size() != video->packet_size.size())
        throw nb::value_error("the columns of a video must have one entry for each picture or packet");
    return {video};
}

// Run k feeds pictures[first_picture[k]:first_picture[k + 1]] of videos[k], into rows first_slot[k] to first_slot[k +
// 1] of slots (m, 7): picture, address, pitch, width, height, chroma, depth. payloads[k]: bytes of all packets, or
// None.
PyTicket submit(PyEngine& self, nb::list videos, Column<int32_t> pictures, Column<int64_t> first_picture,
                nb::ndarray<const int64_t, nb::shape<-1, 7>, nb::c_contig, nb::device::cpu> slots,
                Column<int64_t> first_slot, nb::list payloads, uint64_t stream) {
    const size_t count = nb::len(videos);
    const auto whole = [count](const Column<int64_t>& first, size_t entries) {
        if (first.shape(0) != count + 1 || first(0) != 0 || static_cast<size_t>(first(count)) != entries) return false;
        return std::is_sorted(first.data(), first.data() + first.shape(0));
    };
    if (!whole(first_picture, pictures.shape(0)) || !whole(first_slot, slots.shape(0)) || nb::len(payloads) != count)
        throw nb::value_error("the columns of a submission must have one entry for each run, picture or slot");
    std::vector<std::unique_ptr<vd::Run>> queued;
    queued.reserve(count);
    for (size_t k = 0; k < count; k++) {
        auto run = std::make_unique<vd::Run>();
        run->video = nb::cast<PyVideo&>(videos[k]).video;
        run->pictures.assign(pictures.data() + first_picture(k), pictures.data() + first_picture(k + 1));
        if (run->pictures.empty()) throw nb::value_error("a run without pictures");
        for (int32_t picture : run->pictures)
            if (picture < 0 || picture >= run->video->pictures()) throw nb::value_error("a picture outside the video");
        for (int64_t row_number = first_slot(k); row_number < first_slot(k + 1); row_number++) {
            const int64_t* row = slots.data() + 7 * row_number;
            vd::Slot slot;
            slot.picture = row[0];
            slot.address = static_cast<vd::driver::DevicePtr>(row[1]);
            slot.pitch = static_cast<size_t>(row[2]);
            slot.format = {static_cast<int>(row[3]), static_cast<int>(row[4]), static_cast<int>(row[5]),
                           static_cast<int>(row[6])};
            run->slots.push_back(slot);
        }
        if (!payloads[k].is_none()) {
            run->payloads = std::make_unique<std::vector<std::string>>();
            for (nb::handle payload : nb::cast<nb::list>(payloads[k])) {
                nb::bytes bytes = nb::cast<nb::bytes>(payload);
                run->payloads->emplace_back(bytes.c_str(), bytes.size());
            }
        }
        queued.push_back(std::move(run));
    }
    nb::gil_scoped_release release;
    return {self.engine, self.engine->submit(std::move(queued), reinterpret_cast<vd::driver::Stream>(stream))};
}

nb::object results(const PyTicket& self) {
    nb::list out;
    for (const vd::RunResult& result : self.ticket->results()) {
        if (!result.failed && result.missing.empty() && result.bad.empty()) {
            out.append(nb::none());
            continue;
        }
        nb::object kind = result.failed ? nb::cast(std::string(vd::name_of(result.kind))) : nb::none();
        nb::object found = nb::none();
        if (result.failed && result.kind == vd::ErrorKind::format)
            found = nb::make_tuple(result.found.width, result.found.height, result.found.chroma, result.found.depth);
        out.append(nb::make_tuple(kind, result.message, result.missing, result.bad, found));
    }
    return out;
}

nb::object wait(const PyTicket& self, std::optional<double> timeout_s) {
    bool ended = false;
    // In slices, so that Ctrl-C is heard.
    const double slice_s = 0.2;
    double left = timeout_s.value_or(-1);
    for (;;) {
        const double now = timeout_s ? std::min(left, slice_s) : slice_s;
        {
            nb::gil_scoped_release release;
            ended = self.ticket->wait(std::max(now, 0.0));
        }
        if (ended) return results(self);
        if (PyErr_CheckSignals()) throw nb::python_error();
        if (timeout_s && (left -= now) <= 0) return nb::none();
    }
}

nb::dict statistics(const PyEngine& self) {
    const vd::EngineStatistics s = self.engine->statistics();
    nb::dict out;
    out["pictures_decoded"] = s.decoded;
    out["pictures_copied"] = s.copied;
    out["runs"] = s.runs;
    out["bytes_read"] = s.bytes_read;
    out["errors"] = s.errors;
    out["parsers_created"] = s.parsers;
    out["decoders_created"] = s.decoders_created;
    out["decoders_reconfigured"] = s.decoders_reconfigured;
    out["decoders_destroyed"] = s.decoders_destroyed;
    out["queued"] = s.queued;
    out["sessions"] = s.sessions;
    return out;
}

nb::object caps(const PyEngine& self, int codec, int chroma, int depth) {
    const vd::driver::DecodeCaps c = self.engine->caps(codec, chroma, depth);
    if (!c.isSupported) return nb::none();
    nb::dict out;
    out["engines"] = static_cast<int>(c.numNvdecs);
    out["min_width"] = static_cast<int>(c.minWidth);
    out["min_height"] = static_cast<int>(c.minHeight);
    out["max_width"] = c.maxWidth;
    out["max_height"] = c.maxHeight;
    out["max_macroblocks"] = c.maxMbCount;
    return out;
}

nb::dict driver_info() {
    const vd::driver::Found& found = vd::driver::found();
    nb::dict out;
    out["cuda_library"] = found.cuda_library;
    out["cuvid_library"] = found.cuvid_library;
    out["problem"] = found.problem;
    out["missing_symbols"] = found.missing_symbols;
    out["cuda_version"] = found.version;
    nb::list devices;
    int count = 0;
    if (found.problem.empty() && vd::driver::functions().deviceGetCount(&count) == vd::driver::kSuccess) {
        for (int k = 0; k < count; k++) {
            char name[256] = {};
            vd::driver::Device device = 0;
            if (vd::driver::functions().deviceGet(&device, k) == vd::driver::kSuccess)
                vd::driver::functions().deviceGetName(name, sizeof name, device);
            devices.append(std::string(name));
        }
    }
    out["devices"] = devices;
    return out;
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Native core of videodataset: NVDEC sessions over the NVIDIA driver, which is opened at run time.";

    static nb::exception<vd::Error> core_error(m, "CoreError", PyExc_RuntimeError);
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            std::rethrow_exception(pointer);
        } catch (const vd::Error& error) {
            // args: kind, message
            nb::object arguments = nb::make_tuple(std::string(vd::name_of(error.kind)), std::string(error.what()));
            PyErr_SetObject(core_error.ptr(), arguments.ptr());
        }
    });

    nb::class_<PyVideo>(m, "Video")
        .def(
            "__init__",
            [](PyVideo* self, const std::string& name, std::optional<nb::bytes> path,
               std::tuple<int64_t, int64_t, int64_t> identity, int codec, int nal_length_size,
               Column<int64_t> packet_offset, Column<int64_t> packet_size, Column<int64_t> first_packet,
               Column<uint8_t> sync, Column<int32_t> parameter_sets, const std::vector<nb::bytes>& blobs) {
                new (self) PyVideo(make_video(name, path, identity, codec, nal_length_size, packet_offset, packet_size,
                                              first_packet, sync, parameter_sets, blobs));
            },
            "name"_a, "path"_a.none(), "identity"_a, "codec"_a, "nal_length_size"_a, "packet_offset"_a, "packet_size"_a,
            "first_packet"_a, "sync"_a, "parameter_sets"_a, "parameter_set_blobs"_a);

    nb::class_<PyTicket>(m, "Ticket")
        .def_prop_ro("done", [](const PyTicket& self) { return self.ticket->done(); })
        .def("wait", &wait, "timeout_s"_a.none() = nb::none())
        .def("cancel", [](const PyTicket& self) { self.ticket->cancel(); })
        .def(
            "order_before",
            [](const PyTicket& self, uint64_t stream) {
                self.engine->order_before(*self.ticket, reinterpret_cast<vd::driver::Stream>(stream));
            },
            "stream"_a, nb::call_guard<nb::gil_scoped_release>())
        .def(
            "synchronize", [](const PyTicket& self) { self.engine->synchronize(*self.ticket); },
            nb::call_guard<nb::gil_scoped_release>());

    nb::class_<PyEngine>(m, "Engine")
        .def(
            "__init__",
            [](PyEngine* self, int device, size_t sessions) { new (self) PyEngine{make_engine(device, sessions)}; },
            "device"_a, "sessions"_a)
        .def("submit", &submit, "videos"_a, "pictures"_a, "first_picture"_a, "slots"_a, "first_slot"_a, "payloads"_a,
             "stream"_a)
        .def(
            "close", [](PyEngine& self) { self.engine->close(); }, nb::call_guard<nb::gil_scoped_release>())
        .def("statistics", &statistics)
        .def("caps", &caps, "codec"_a, "chroma"_a, "depth"_a);

    m.def("driver_info", &driver_info);
    m.def("driver_calls", [] { return vd::driver::call_count.load(); });
}
