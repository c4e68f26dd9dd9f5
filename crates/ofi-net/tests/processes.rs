//! Two processes, both directions at once, sizes and order at random, sequences wrapping many times.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::peer::{given_handle, peer_process};
use common::{
    Buffer, Lcg, Side, accept_from, config, connect_to, irecv, isend, listen, on_each_provider,
    pattern_byte, sendrecv, wait,
};
use ofi_net::{CommWord, Config, ReqWord, Transport};
use std::collections::VecDeque;

/// More than two turns of the 10-bit sequence.
const MESSAGES: usize = 2500;
const WINDOW: usize = 16;
const ROOM: usize = 300_000;

/// Mostly small, some large: eager, rendezvous, striped.
fn size(seed: usize) -> usize {
    let mut random = Lcg(seed as u64 ^ 0xC0FF_EE00);
    match random.below(20) {
        0 => random.below(ROOM),
        1..=4 => random.below(20_000),
        5 => 0,
        _ => random.below(600),
    }
}

struct Flow {
    comm: CommWord,
    buffers: Vec<Buffer>,
    flying: VecDeque<(usize, ReqWord)>,
    next: usize,
}

impl Flow {
    fn new(net: &Transport, comm: CommWord) -> Self {
        let buffers = (0..WINDOW)
            .map(|_| Buffer::new(net, comm, vec![0; ROOM]))
            .collect();
        Self {
            comm,
            buffers,
            flying: VecDeque::new(),
            next: 0,
        }
    }

    fn has_room(&self) -> bool {
        self.next < MESSAGES && self.flying.len() < WINDOW
    }

    fn send(&mut self, net: &Transport, seed: usize) {
        let (n, len) = (self.next, size(self.next + seed));
        let buffer = &mut self.buffers[n % WINDOW];
        for (at, byte) in buffer.bytes[..len].iter_mut().enumerate() {
            *byte = pattern_byte(n + seed, at);
        }
        self.flying
            .push_back((n, isend(net, self.comm, buffer, 0, len)));
        self.next += 1;
    }

    fn recv(&mut self, net: &Transport, seed: usize) {
        let (n, room) = (self.next, size(self.next + seed));
        // Some room to spare now and then: the size reported has to be the sender's.
        let room = if n % 7 == 0 { ROOM } else { room };
        let buffer = &mut self.buffers[n % WINDOW];
        self.flying
            .push_back((n, irecv(net, self.comm, buffer, 0, room)));
        self.next += 1;
    }

    /// Takes the oldest if it is done; whether it was.
    fn reap(&mut self, net: &Transport, seed: usize, received: bool) -> bool {
        let Some(&(n, request)) = self.flying.front() else {
            return false;
        };
        let Some(moved) = net.test(request).unwrap() else {
            return false;
        };
        self.flying.pop_front();
        let len = size(n + seed);
        assert_eq!(moved, len as u64, "message {n}");
        if received {
            let bytes = &self.buffers[n % WINDOW].bytes[..len];
            let wrong = (0..len).find(|&at| bytes[at] != pattern_byte(n + seed, at));
            assert_eq!(wrong, None, "message {n} of {len} bytes");
        }
        true
    }

    fn is_done(&self) -> bool {
        self.next == MESSAGES && self.flying.is_empty()
    }

    fn free(self, net: &Transport) {
        for buffer in self.buffers {
            buffer.free(net, self.comm);
        }
    }
}

fn both_ways(net: &Transport, send: CommWord, recv: CommWord, mine: usize, theirs: usize) {
    let (mut out, mut back) = (Flow::new(net, send), Flow::new(net, recv));
    let mut random = Lcg(mine as u64);
    let mut idle = std::time::Instant::now();
    while !(out.is_done() && back.is_done()) {
        for _ in 0..random.below(4) {
            if out.has_room() {
                out.send(net, mine);
            }
        }
        for _ in 0..random.below(4) {
            if back.has_room() {
                back.recv(net, theirs);
            }
        }
        if out.reap(net, mine, false) | back.reap(net, theirs, true) {
            idle = std::time::Instant::now();
        }
        assert!(
            idle.elapsed() < common::PATIENCE,
            "sent {}, received {}",
            out.next,
            back.next
        );
    }
    out.free(net);
    back.free(net);
    net.close_send(send).unwrap();
    net.close_recv(recv).unwrap();
}

fn ranks(name: &str, settings: Config) {
    let side = Side::new(settings);
    let net = &side.net;
    if let Some(mut handle) = given_handle() {
        let send = connect_to(net, &mut handle);
        let (listener, mine) = listen(net);
        let mut buffer = Buffer::new(net, send, mine.to_vec());
        let request = isend(net, send, &mut buffer, 0, 128);
        let recv = accept_from(net, listener);
        assert_eq!(wait(net, request), 128);
        buffer.free(net, send);
        both_ways(net, send, recv, 2_000_000, 1_000_000);
        return;
    }
    let (listener, handle) = listen(net);
    let other = peer_process(name, &handle);
    let recv = accept_from(net, listener);
    let mut buffer = Buffer::new(net, recv, vec![0; 128]);
    let request = irecv(net, recv, &mut buffer, 0, 128);
    assert_eq!(wait(net, request), 128);
    let mut theirs = [0; 128];
    theirs.copy_from_slice(&buffer.free(net, recv));
    let send = connect_to(net, &mut theirs);
    both_ways(net, send, recv, 1_000_000, 2_000_000);
    other.finish();
}

#[test]
fn processes_over_one_rail() {
    on_each_provider("processes_over_one_rail", || {
        ranks("processes_over_one_rail", config(1));
    });
}

#[test]
fn processes_over_two_rails() {
    on_each_provider("processes_over_two_rails", || {
        ranks("processes_over_two_rails", config(2));
    });
}

#[test]
fn processes_over_four_rails() {
    on_each_provider("processes_over_four_rails", || {
        ranks("processes_over_four_rails", config(4));
    });
}

#[test]
fn processes_over_sendrecv() {
    on_each_provider("processes_over_sendrecv", || {
        ranks("processes_over_sendrecv", sendrecv());
    });
}
