#include "core/driver/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <mutex>

namespace vd::driver {

std::atomic<unsigned long long> call_count{0};

namespace {

struct Loaded {
    Found found;
    Functions functions;
};

void* open_library(const char* variable, const char* name, std::string& opened, std::string& problem) {
    const char* chosen = std::getenv(variable);
    const char* path = chosen && *chosen ? chosen : name;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) {
        opened = path;
    } else if (problem.empty()) {
        const char* reason = dlerror();
        problem = std::string(reason ? reason : path);
    }
    return library;
}

Loaded load() {
    Loaded loaded;
    Found& found = loaded.found;
    std::string cuda_problem, cuvid_problem;
    void* cuda = open_library("VIDEODATASET_LIBCUDA", "libcuda.so.1", found.cuda_library, cuda_problem);
    if (!cuda) {
        found.problem = "no NVIDIA driver here (" + cuda_problem + "). Install it, or use device='cpu'.";
        return loaded;
    }
    void* cuvid = open_library("VIDEODATASET_LIBNVCUVID", "libnvcuvid.so.1", found.cuvid_library, cuvid_problem);
    if (!cuvid) {
        found.problem = "the NVIDIA driver's video library is missing (" + cuvid_problem +
                        "). In a container set NVIDIA_DRIVER_CAPABILITIES=compute,video,utility; on a machine install "
                        "the driver's decode package (libnvidia-decode on Ubuntu).";
        return loaded;
    }
    auto resolve = [&](void* library, const char* symbol) {
        void* address = dlsym(library, symbol);
        if (!address) found.missing_symbols.push_back(symbol);
        return address;
    };
#define VD_RESOLVE_CUDA(name, symbol, arguments) loaded.functions.name.set(resolve(cuda, symbol));
#define VD_RESOLVE_CUVID(name, symbol, arguments) loaded.functions.name.set(resolve(cuvid, symbol));
    VD_CUDA_FUNCTIONS(VD_RESOLVE_CUDA)
    VD_CUVID_FUNCTIONS(VD_RESOLVE_CUVID)
#undef VD_RESOLVE_CUDA
#undef VD_RESOLVE_CUVID
    if (!found.missing_symbols.empty()) {
        found.problem = "the NVIDIA driver is too old: it lacks " + found.missing_symbols.front() +
                        ". Install a newer driver (525 or later), or use device='cpu'.";
        return loaded;
    }
    const Result result = loaded.functions.init(0);
    if (result != kSuccess) {
        found.problem = "cuInit failed with code " + std::to_string(result) +
                        ": no usable NVIDIA GPU. See nvidia-smi, or use device='cpu'.";
        return loaded;
    }
    loaded.functions.driverGetVersion(&found.version);
    return loaded;
}

const Loaded& loaded() {
    static const Loaded once = load();
    return once;
}

// A forked child begins to count anew: what its parent called says nothing of the child.
const int at_fork = pthread_atfork(nullptr, nullptr, [] { call_count = 0; });

}  // namespace

const Found& found() {
    return loaded().found;
}

const Functions& functions() {
    const Loaded& once = loaded();
    if (!once.found.problem.empty()) throw Error(ErrorKind::unavailable, once.found.problem);
    return once.functions;
}

std::string result_name(Result result) {
    const char* name = nullptr;
    if (functions().getErrorName(result, &name) == kSuccess && name) return name;
    return "code " + std::to_string(result);
}

void check(Result result, const char* call) {
    if (result == kSuccess) return;
    const ErrorKind kind = result == kOutOfMemory ? ErrorKind::out_of_memory : ErrorKind::driver;
    throw Error(kind, std::string(call) + " failed: " + result_name(result));
}

}  // namespace vd::driver
