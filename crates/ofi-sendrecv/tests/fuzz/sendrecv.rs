//! Any bytes are a connect message of SENDRECV or refused, and what was read is what is written back.

use ofi_sendrecv::wire::Connect;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(message) = Connect::decode(bytes) else {
        return;
    };
    let again = message.encode();
    let used = usize::from(message.name.len);
    assert_eq!(again.get(..used), bytes.get(..used));
    assert_eq!(Connect::decode(&again), Ok(message));
}
