//! The provider stays mapped once loaded: libfabric unloads its providers when the process exits,
//! and threads of other libraries may still be inside.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    // The symbols of a sanitizer or fuzzer are in the program that loads us.
    let flags = std::env::var_os("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.to_string_lossy().contains("sanitizer") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
