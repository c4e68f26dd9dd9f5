//! Loading: failures name what was tried; a good load keeps the process's signal handlers.
#![expect(
    clippy::print_stderr,
    reason = "a skipped test is named where people look"
)]

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ofi_sys::{Library, LoadError};

/// `None`, after saying so, only where the environment allows a machine without libfabric.
fn library(test: &str) -> Option<&'static Library> {
    let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(PathBuf::from);
    match Library::load(path.as_deref()) {
        Ok(library) => Some(library),
        Err(error) if std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") => {
            eprintln!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_missing_file_is_named_with_the_reason() {
    let path = Path::new("/nonexistent/libfabric.so.1");
    match Library::load(Some(path)) {
        Err(LoadError::NotFound { tried }) => {
            assert_eq!(tried.len(), 1);
            assert_eq!(tried[0].path, path);
            assert!(
                tried[0].reason.contains("No such file"),
                "{}",
                tried[0].reason
            );
        }
        // Another test of this process may have loaded the real one first.
        Err(LoadError::AlreadyLoaded { asked, .. }) => assert_eq!(asked, path),
        other => panic!("{other:?}"),
    }
}

/// An empty variable is as one that is not set; to the loader an empty name is the program itself.
#[test]
fn an_empty_path_is_none() {
    // A process has one libfabric: the one that is asked for comes first.
    let library = library("an_empty_path_is_none");
    match (library, Library::load(Some(Path::new("")))) {
        (Some(library), empty) => assert!(ptr::eq(library, empty.unwrap())),
        (None, empty) => {
            let error = empty.unwrap_err().to_string();
            assert!(error.contains("libfabric.so.1 ("), "{error}");
        }
    }
}

/// The loader would wait for somebody who writes to it.
#[test]
fn a_pipe_is_no_library_and_is_not_waited_for() {
    let pipe = std::env::temp_dir().join(format!("ofi-sys-load-{}", std::process::id()));
    let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
    // SAFETY: a text that ends.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let loaded = Library::load(Some(&pipe));
    std::fs::remove_file(&pipe).unwrap();
    match loaded {
        Err(LoadError::NotFound { tried }) => assert_eq!(tried[0].reason, "it is no file"),
        Err(LoadError::AlreadyLoaded { asked, .. }) => assert_eq!(asked, pipe),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_message_says_what_to_do() {
    let tried = vec![ofi_sys::Attempt {
        path: "libfabric.so.1".into(),
        reason: "gone".into(),
    }];
    let text = LoadError::NotFound { tried }.to_string();
    assert!(text.contains("libfabric.so.1 (gone)"), "{text}");
    assert!(text.contains("apt-get install libfabric1"), "{text}");
}

/// The handlers in force of the signals that Debian's libpsm2 takes over.
fn handlers() -> Vec<usize> {
    [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGABRT,
        libc::SIGINT,
        libc::SIGTERM,
    ]
    .into_iter()
    .map(handler)
    .collect()
}

fn handler(signal: c_int) -> usize {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null `act` changes nothing; the old action is written to the struct.
    let code = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    assert_eq!(code, 0);
    // SAFETY: filled above.
    unsafe { action.assume_init() }.sa_sigaction
}

#[test]
fn loading_keeps_the_signal_handlers() {
    let before = handlers();
    let Some(library) = library("loading_keeps_the_signal_handlers") else {
        return;
    };
    let mut info = ptr::null_mut();
    let none = (ptr::null(), ptr::null());
    // SAFETY: no node, no service, no hints; the list goes to `info`.
    let code = unsafe { library.getinfo(0x1_0011, none, 0, ptr::null(), &raw mut info) };
    assert_eq!(code, 0, "{:?}", library.strerror(code));
    // SAFETY: the list that getinfo made, freed once.
    unsafe { library.freeinfo(info) };
    assert_eq!(before, handlers());
}

#[test]
fn it_is_loaded_once() {
    let Some(first) = library("it_is_loaded_once") else {
        return;
    };
    let again = Library::load(None).unwrap();
    assert!(ptr::eq(first, again));
    assert!(first.version() >= (1, 17), "{:?}", first.version());
}
