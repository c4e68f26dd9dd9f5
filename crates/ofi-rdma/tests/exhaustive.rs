//! Whole domains of the decoders: every type and length there can be, every sequence number and id.

use ofi_rdma::limits::{CLOSE_BYTES, CONN_BYTES, CTRL_BYTES_MAX};
use ofi_rdma::wire::close::Close;
use ofi_rdma::wire::conn::Conn;
use ofi_rdma::wire::ctrl::Ctrl;
use ofi_rdma::{Base, Dialect, KeyWidth, Tiny};

/// Longer than any message.
const LENGTHS: usize = 600;

fn bytes(first: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5A; len];
    if let Some(byte) = bytes.first_mut() {
        *byte = first;
    }
    bytes
}

/// CTRL: types 2 and 5, 16 bytes and four or eight for each rail; nothing else.
#[test]
fn every_type_and_length_of_ctrl() {
    for (first, len) in (0..=255_u8).flat_map(|first| (0..LENGTHS).map(move |len| (first, len))) {
        let bytes = bytes(first, len);
        for rails in 1..=4_u8 {
            let keys = len.checked_sub(16);
            let width = match keys.map(|keys| (keys, keys / usize::from(rails))) {
                Some((keys, 4)) if keys % usize::from(rails) == 0 => Some(KeyWidth::Short),
                Some((keys, 8)) if keys % usize::from(rails) == 0 => Some(KeyWidth::Long),
                _ => None,
            };
            let is_ctrl = len > 0 && matches!(first & 15, 2 | 5);
            let read = Ctrl::decode(&bytes, rails);
            assert_eq!(
                read.is_ok(),
                is_ctrl && width.is_some(),
                "{first:#x}, {len}, {rails}"
            );
            if let Ok((ctrl, read_width)) = read {
                assert_eq!(
                    (Some(read_width), ctrl.no_completion),
                    (width, first & 15 == 5)
                );
            }
        }
    }
}

/// CLOSE: type 4, 24 bytes. CONN: types 0 and 1, 528 bytes.
#[test]
fn every_type_and_length_of_close_and_conn() {
    for (first, len) in (0..=255_u8).flat_map(|first| (0..LENGTHS).map(move |len| (first, len))) {
        let bytes = bytes(first, len);
        let close = len == CLOSE_BYTES && first & 15 == 4;
        assert_eq!(Close::decode(&bytes).is_ok(), close, "{first:#x}, {len}");
        let conn = len == CONN_BYTES && first & 15 < 2;
        assert!(conn || Conn::decode(&bytes).is_err(), "{first:#x}, {len}");
    }
}

/// Rails 0 to 255, both kinds: only 1 to 4 are a connection message.
#[test]
fn every_number_of_rails_of_conn() {
    let mut good = [0; CONN_BYTES];
    for (rails, control) in (0..=255_u8).flat_map(|rails| (0..=255_u8).map(move |c| (rails, c))) {
        (good[2], good[4]) = (rails, control);
        let legal = (1..=4).contains(&rails) && (1..=4).contains(&control);
        assert_eq!(Conn::decode(&good).is_ok(), legal, "{rails} and {control}");
    }
}

/// The first word of CTRL: every sequence number with every 61st id, and every id with every 7th number.
#[test]
fn every_sequence_number_and_id_of_ctrl() {
    let check = |seq: u16, comm_id: u32| {
        let ctrl = Ctrl {
            no_completion: seq % 2 == 1,
            seq,
            comm_id,
            buff_len: 9,
            buff_addr: 10,
            keys: [11, 12, 0, 0],
        };
        let mut out = [0; CTRL_BYTES_MAX];
        let len = ctrl.encode(2, KeyWidth::Short, &mut out);
        assert_eq!(Ctrl::decode(&out[..len], 2), Ok((ctrl, KeyWidth::Short)));
    };
    for seq in 0..1 << 10 {
        (0..1 << 18).step_by(6_101).for_each(|id| check(seq, id));
    }
    for id in 0..1 << 18 {
        check((id % 1024).try_into().unwrap_or(0), id);
    }
}

/// Every immediate of the tiny dialect's numbers, and the Base dialect's, that an engine can write.
#[test]
fn every_immediate_comes_back() {
    fn check<D: Dialect>(seqs: u16) {
        for nseg in 1..=15 {
            for seq in 0..seqs {
                for comm in (0..1 << 18).step_by(257) {
                    let fields = D::decode_imm(D::encode_imm(nseg, comm, seq));
                    assert_eq!((fields.nseg, fields.comm, fields.seq), (nseg, comm, seq));
                }
            }
        }
    }
    check::<Tiny>(8);
    check::<Base>(1024);
}
