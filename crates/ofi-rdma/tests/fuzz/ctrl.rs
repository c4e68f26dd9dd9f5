//! Any bytes are a CTRL, a CLOSE or an error, for every number of rails.

use ofi_rdma::limits::{CLOSE_BYTES, CTRL_BYTES_MAX};
use ofi_rdma::wire::close::Close;
use ofi_rdma::wire::ctrl::Ctrl;

pub(crate) fn check(bytes: &[u8]) {
    for rails in 1..=4 {
        let Ok((ctrl, width)) = Ctrl::decode(bytes, rails) else {
            continue;
        };
        let mut out = [0xff; CTRL_BYTES_MAX];
        let length = ctrl.encode(rails, width, &mut out);
        assert_eq!(out.get(..length), Some(bytes), "{rails} rails");
    }
    if let Ok(close) = Close::decode(bytes) {
        let mut out = [0xff; CLOSE_BYTES];
        assert_eq!(close.encode(&mut out), CLOSE_BYTES);
        assert_eq!(Close::decode(&out), Ok(close));
    }
}
