//! A connected socket of either kind, and the addresses to meet at.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Instant;

/// Where ranks meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// `HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Path(PathBuf),
    /// A name in Linux's abstract socket namespace: ranks of one host and network namespace.
    Abstract(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Path(path.into()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Tcp(text.to_owned()))
            }
            _ => Err(format!("{text:?} is neither HOST:PORT nor unix:PATH")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(a) => f.write_str(a),
            Self::Path(p) => write!(f, "unix:{}", p.display()),
            Self::Abstract(name) => write!(f, "the abstract unix socket {name}"),
        }
    }
}

/// How long a process waits for others before it says so: less where the whole run is short.
pub(crate) fn notice(limit: Duration) -> Duration {
    Duration::from_secs(3).min(limit / 2)
}

/// A listening socket of either kind.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(a) => Self::Tcp(TcpListener::bind(a)?),
            Address::Path(p) => Self::Unix(UnixListener::bind(p)?),
            Address::Abstract(name) => Self::Unix(UnixListener::bind_addr(
                &SocketAddr::from_abstract_name(name)?,
            )?),
        })
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(l) => Stream::tcp(l.accept()?.0)?,
            Self::Unix(l) => Stream::Unix(l.accept()?.0),
        })
    }
}

/// A connected socket of either kind.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Connects, trying again until `limit` has passed: the other side may not listen yet.
    ///
    /// Calls `waiting` once if that takes as long as [`notice`] says.
    pub(crate) fn connect(
        address: &Address,
        limit: Duration,
        waiting: impl FnOnce(),
    ) -> io::Result<Self> {
        let start = Instant::now();
        let mut waiting = Some(waiting);
        loop {
            // A host that drops packets must not delay the notice.
            let patience = if waiting.is_some() {
                notice(limit).max(Duration::from_millis(100))
            } else {
                Duration::from_secs(5)
            };
            match Self::connect_once(address, patience) {
                Ok(stream) => return Ok(stream),
                Err(e) if start.elapsed() >= limit => return Err(e),
                Err(_) => {}
            }
            if start.elapsed() >= notice(limit) {
                if let Some(say) = waiting.take() {
                    say();
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn connect_once(address: &Address, patience: Duration) -> io::Result<Self> {
        match address {
            Address::Tcp(a) => {
                // A name can have several addresses, of IPv6 and of IPv4.
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for at in resolve(a)? {
                    match TcpStream::connect_timeout(&at, patience) {
                        Ok(stream) => return Self::tcp(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Path(p) => Ok(Self::Unix(UnixStream::connect(p)?)),
            Address::Abstract(name) => {
                let at = SocketAddr::from_abstract_name(name)?;
                Ok(Self::Unix(UnixStream::connect_addr(&at)?))
            }
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(s) => Self::Tcp(s.try_clone()?),
            Self::Unix(s) => Self::Unix(s.try_clone()?),
        })
    }

    pub(crate) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_read_timeout(limit),
            Self::Unix(s) => s.set_read_timeout(limit),
        }
    }

    pub(crate) fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_write_timeout(limit),
            Self::Unix(s) => s.set_write_timeout(limit),
        }
    }
}

/// The addresses of `HOST:PORT`.
///
/// # Errors
/// `NotFound`: there is none.
fn resolve(text: &str) -> io::Result<Vec<core::net::SocketAddr>> {
    let found = match text
        .strip_prefix('[')
        .and_then(|rest| rest.rsplit_once("]:"))
    {
        // In brackets, with a zone maybe (`fe80::1%eth0`).
        Some((host, port)) => {
            let port: u16 = port.parse().map_err(io::Error::other)?;
            (host, port).to_socket_addrs()
        }
        None => text.to_socket_addrs(),
    };
    let found = found.map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?;
    Ok(found.collect())
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.read(buf),
            Self::Unix(s) => s.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.write(buf),
            Self::Unix(s) => s.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.flush(),
            Self::Unix(s) => s.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_tcp_or_unix_and_nothing_else() {
        assert_eq!("h:80".parse(), Ok(Address::Tcp("h:80".to_owned())));
        assert_eq!("unix:/a/b".parse(), Ok(Address::Path("/a/b".into())));
        for bad in ["", "h", ":1", "h:", "h:x", "h:99999"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
