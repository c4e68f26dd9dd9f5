//! Linker flags of the shared object. Nothing is probed on the build machine.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The name a loader looks for; cargo itself cannot put a hyphen into a library's file name.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccom-net.so");
    // Everything is resolved at load: an error there is better than one in the middle of a job.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    // No unresolved symbol may wait for run time either; but those of a sanitizer or fuzzer are in the program.
    let flags = std::env::var_os("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.to_string_lossy().contains("sanitizer") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
    }
}
