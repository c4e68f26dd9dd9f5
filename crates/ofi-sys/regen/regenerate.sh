#!/bin/sh
# Regenerates src/bindings.rs from the libfabric headers of the machine.
#
# Only a maintainer needs this, when the set of bound types changes: the result is committed, and
# building the crate needs neither headers nor libclang. Needs: libfabric-dev (1.17), libclang,
# bindgen-cli 0.72.
set -eu
cd "$(dirname "$0")"
TYPES='fid|fid_(fabric|domain|ep|pep|av|cq|eq|cntr|mr|nic|mc)|fi_info'
TYPES="$TYPES|fi_(tx|rx|ep|domain|fabric|device|pci|bus|link)_attr"
TYPES="$TYPES|fi_ops(_(fabric|domain|mr|av|cq|eq|cntr|ep|cm|msg|rma|tagged))?"
TYPES="$TYPES|fi_(cq|eq|cntr|av)_attr|fi_cq_(entry|msg_entry|data_entry|tagged_entry)"
TYPES="$TYPES|fi_eq_(entry|err_entry)|fi_msg(_rma|_tagged)?|fi_rma_iov|fi_context2?|fi_provider"
TYPES="$TYPES|fi_mr_raw_attr|fi_(av_type|threading|progress|resource_mgmt|ep_type|bus_type)"
TYPES="$TYPES|fi_(link_state|cq_format|wait_obj|cq_wait_cond|hmem_iface|mr_mode|type)"
# Written by hand: structs that grew after 1.17 (src/grown.rs), types we only pass (src/opaque.rs).
BLOCK='fi_mr_attr|fi_cq_err_entry|fi_atomic_attr|fi_collective_attr|fi_datatype|fi_op'
BLOCK="$BLOCK|fi_collective_op|fi_ops_atomic|fi_ops_collective|fid_(poll|wait|stx|av_set)"
BLOCK="$BLOCK|fi_poll_attr|fi_wait_attr|fi_cntr_events|fi_av_set_attr|iovec|fi_eq_cm_entry"
bindgen wrapper.h --rust-target 1.85 --rust-edition 2024 --use-core \
    --default-enum-style consts --no-prepend-enum-name --no-doc-comments --with-derive-default \
    --allowlist-type "$TYPES" --blocklist-type "$BLOCK" --blocklist-function '.*' \
    --blocklist-item '_bindgen_ty_[0-9]+|__IncompleteArrayField|fi_mr_attr__bindgen_ty_1' \
    --raw-line 'use crate::grown::{fi_cq_err_entry, fi_mr_attr};' \
    --raw-line 'use crate::opaque::{fi_atomic_attr, fi_av_set_attr, fi_cntr_events, fi_collective_attr};' \
    --raw-line 'use crate::opaque::{fi_collective_op, fi_datatype, fi_op, fi_ops_atomic, fi_ops_collective};' \
    --raw-line 'use crate::opaque::{fi_poll_attr, fi_wait_attr, fid_av_set, fid_poll, fid_stx, fid_wait};' \
    --raw-line 'use libc::iovec;' |
    sed -e '/^#\[allow(clippy/d' -e 's/fi_bus_attr__bindgen_ty_1/fi_bus_attr_union/g' \
        -e 's/::core::option::Option</Option</' >../src/bindings.rs
rustfmt --edition 2024 ../src/bindings.rs
