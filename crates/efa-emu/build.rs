//! The provider stays mapped once loaded: libfabric unloads its providers when the process exits,
//! and threads of other libraries may still be inside.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,relro,-z,now,-z,defs");
    println!("cargo::rerun-if-changed=build.rs");
}
