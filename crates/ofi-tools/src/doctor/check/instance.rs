//! What instance types have.

/// EFAs of an instance of this product name that was launched with all of them, where that is known.
pub(super) fn nics(product: &str) -> Option<usize> {
    ofi_net::instance_nics(product)
}
