//! A connection that nobody does anything wrong with, on the same device: whatever happens, it goes on.

use core::cell::UnsafeCell;

use super::table::{Close, Message, Table};
use super::world::{World, until};

const AREA_BYTES: usize = 16_384;
/// The first half is sent, the second one received into.
const HALF: usize = AREA_BYTES / 2;

#[repr(align(4096))]
struct Area(UnsafeCell<[u8; AREA_BYTES]>);

// SAFETY: one sequence at a time uses it (`super::WORLD`), and what the network writes it writes in calls.
unsafe impl Sync for Area {}

static AREA: Area = Area(UnsafeCell::new([0; AREA_BYTES]));

/// The words of the connection, of a life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Witness {
    pub(crate) send: usize,
    pub(crate) recv: usize,
    pub(crate) regions: [usize; 2],
    messages: usize,
}

fn place(offset: usize) -> usize {
    AREA.0.get().expose_provenance() + offset
}

fn byte_of(number: usize, i: usize) -> u8 {
    (number.wrapping_mul(31) ^ i.wrapping_mul(7)).to_le_bytes()[0]
}

impl Witness {
    fn connect(table: &Table, context: usize) -> Self {
        let (mut handle, mut listener) = ([0; 128], 0);
        let place_of = (context, 0);
        let listened = table.listen(place_of, Some(&mut handle), Some(&mut listener));
        assert_eq!(listened, 0, "the witness listens");
        let (mut send, mut recv) = (0, 0);
        until("the witness connects", || {
            if send == 0 {
                let result = table.connect(place_of, Some(&mut handle), Some(&mut send));
                assert_eq!(result, 0, "the witness connects");
            }
            if recv == 0 {
                let result = table.accept(listener, Some(&mut recv));
                assert_eq!(result, 0, "the witness accepts");
            }
            send != 0 && recv != 0
        });
        assert_eq!(
            table.close(Close::Listen, listener),
            0,
            "the witness's listener"
        );
        let regions = [(send, 0), (recv, HALF)].map(|(comm, offset)| {
            let mut word = 0;
            let result = table.reg_mr(comm, (place(offset), HALF), 1, Some(&mut word));
            assert_eq!(result, 0, "the witness registers");
            word
        });
        Self {
            send,
            recv,
            regions,
            messages: 0,
        }
    }

    /// One message, every byte of it.
    fn message(&mut self, table: &Table) {
        let number = self.messages;
        self.messages += 1;
        // Eager and not.
        let len = if number % 2 == 0 { 100 } else { HALF };
        let bytes: Vec<u8> = (0..len).map(|i| byte_of(number, i)).collect();
        let area = AREA.0.get().cast::<u8>();
        // SAFETY: in the area; nobody refers to it but by address.
        unsafe { area.copy_from(bytes.as_ptr(), len) };
        let message = |comm, offset, mhandle| Message {
            comm,
            n: 1,
            data: place(offset),
            size: i64::try_from(len).expect("it is short"),
            tag: 1,
            mhandle,
        };
        let send = message(self.send, 0, self.regions[0]);
        let recv = message(self.recv, HALF, self.regions[1]);
        let (mut words, mut done, mut size) = ([0; 2], [0; 2], -1);
        until("a message of the witness", || {
            if words[0] == 0 {
                let result = table.isend(&send, Some(&mut words[0]));
                assert_eq!(result, 0, "the witness sends");
            }
            if words[1] == 0 {
                let result = table.irecv(&recv, Some(&mut words[1]));
                assert_eq!(result, 0, "the witness receives");
            }
            for side in 0..2 {
                if words[side] != 0 && done[side] == 0 {
                    let result = table.test(words[side], Some(&mut done[side]), Some(&mut size));
                    assert_eq!(result, 0, "the witness fails");
                }
            }
            done == [1; 2]
        });
        let arrived = area.wrapping_add(HALF);
        // SAFETY: in the area, whose bytes are all written; nobody writes to it during this call.
        let arrived = unsafe { core::slice::from_raw_parts(arrived, len) };
        assert!(arrived == bytes, "message {number} of the witness");
    }
}

impl World {
    /// Has the witness send a message; the first time in a life it connects.
    pub(crate) fn witness(&mut self) {
        let (Some(polled), context) = (self.polled_table(), self.context()) else {
            return;
        };
        let Some(life) = &self.life else { return };
        let mut witness = life
            .witness
            .unwrap_or_else(|| Witness::connect(polled, context));
        witness.message(polled);
        if let Some(life) = &mut self.life {
            life.witness = Some(witness);
        }
    }

    /// A communicator that is always there.
    pub(crate) fn witness_comm(&self) -> usize {
        let life = self.life.as_ref();
        life.and_then(|life| life.witness)
            .map_or(0, |witness| witness.send)
    }
}
