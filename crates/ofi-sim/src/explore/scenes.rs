//! The scenes that are explored in the tests, by name.

use super::scene::Scene;

/// What exploring a scene costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// At most fifty thousand moves: a second in a release build.
    Short,
    /// At most half a million moves: ten seconds.
    Seconds,
    /// Millions.
    Minutes,
}

/// A scene with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// What is explored, in words.
    pub name: &'static str,
    /// Three-bit sequence numbers ([`ofi_rdma::Tiny`], one message in flight) instead of four
    /// ([`super::Pair`], two).
    pub tiny: bool,
    /// How long it takes.
    pub effort: Effort,
    /// The scene.
    pub scene: Scene,
}

const P: Scene = Scene::PLAIN;

/// An eager message and one in two segments, two in flight.
const BOTH: Scene = Scene {
    messages: &[(50, 50), (200, 200)],
    eager_max: Some(64),
    ..P
};

/// An eager message alone.
const EAGER: Scene = Scene {
    messages: &[(50, 50)],
    eager_max: Some(64),
    ..P
};

const CLOSE: Scene = Scene {
    may_close: true,
    ..P
};

/// From the handle to the connection, with one message of one segment.
const CONNECT: Scene = Scene {
    connected: false,
    messages: &[(50, 50)],
    ..P
};

/// More messages than there are sequence numbers, of each kind.
const WRAP: &[(u32, u32)] = &[
    (50, 50),
    (100, 100),
    (0, 0),
    (50, 20),
    (100, 100),
    (50, 50),
    (0, 9),
    (100, 70),
    (50, 50),
    (200, 200),
];

const fn small(name: &'static str, scene: Scene) -> Named {
    Named {
        name,
        tiny: true,
        effort: Effort::Short,
        scene,
    }
}

const fn pair(name: &'static str, scene: Scene) -> Named {
    Named {
        name,
        tiny: false,
        effort: Effort::Short,
        scene,
    }
}

const fn long(name: &'static str, scene: Scene) -> Named {
    Named {
        name,
        tiny: false,
        effort: Effort::Seconds,
        scene,
    }
}

const fn huge(name: &'static str, scene: Scene) -> Named {
    Named {
        effort: Effort::Minutes,
        ..long(name, scene)
    }
}

/// All of them.
pub const SCENES: &[Named] = &[
    small("one message in two segments", P),
    small("an eager message, then one in segments", BOTH),
    small(
        "a message on four rails",
        Scene {
            rails: 4,
            messages: &[(500, 500)],
            ..P
        },
    ),
    small(
        "cut and empty messages",
        Scene {
            messages: &[(300, 140), (0, 10), (10, 0)],
            eager_max: Some(5),
            ..P
        },
    ),
    small(
        "sequence numbers wrap",
        Scene {
            messages: WRAP,
            eager_max: Some(64),
            ..P
        },
    ),
    small("close at any moment", CLOSE),
    small(
        "close at any moment of an eager message",
        Scene {
            may_close: true,
            ..EAGER
        },
    ),
    small(
        "close at any moment of an eager message that the processor copies",
        Scene {
            may_close: true,
            copies_at_once: true,
            ..EAGER
        },
    ),
    small(
        "an operation of an eager message that the processor copies fails",
        Scene {
            errors: 1,
            copies_at_once: true,
            ..EAGER
        },
    ),
    small(
        "close at any moment, said by CLOSE",
        Scene {
            close_messages: true,
            ..CLOSE
        },
    ),
    small("an operation fails", Scene { errors: 1, ..P }),
    small("two operations fail", Scene { errors: 2, ..P }),
    small(
        "an operation of an eager message fails",
        Scene { errors: 1, ..EAGER },
    ),
    small(
        "an operation fails while sides close, said by CLOSE",
        Scene {
            errors: 1,
            close_messages: true,
            ..CLOSE
        },
    ),
    small("connect", CONNECT),
    small(
        "connect, close and fail at any moment",
        Scene {
            may_close: true,
            errors: 1,
            ..CONNECT
        },
    ),
    small(
        "connect, with a control message that comes twice",
        Scene {
            repeats: 1,
            ..CONNECT
        },
    ),
    small(
        "control messages that are injected",
        Scene {
            inject_max: 600,
            may_close: true,
            ..CONNECT
        },
    ),
    small("a flush of every rail", Scene { flush: true, ..P }),
    small(
        "a flush that fails",
        Scene {
            flush: true,
            errors: 1,
            messages: &[(50, 50)],
            ..P
        },
    ),
    small(
        "a control message comes twice",
        Scene {
            repeats: 1,
            rails: 1,
            ..BOTH
        },
    ),
    pair(
        "optional receives",
        Scene {
            optional: true,
            rails: 1,
            messages: &[(200, 200), (0, 5)],
            ..P
        },
    ),
    pair(
        "two messages on one rail",
        Scene {
            rails: 1,
            messages: &[(200, 200), (100, 100)],
            ..P
        },
    ),
    long(
        "two messages in flight, in segments",
        Scene {
            messages: &[(200, 200), (100, 100)],
            ..P
        },
    ),
    long("two messages in flight, the first eager", BOTH),
    long(
        "two messages in flight, the first eager and copied by the processor",
        Scene {
            copies_at_once: true,
            ..BOTH
        },
    ),
    huge(
        "two messages in flight, close at any moment",
        Scene {
            may_close: true,
            ..BOTH
        },
    ),
    huge(
        "two messages in flight, an operation fails",
        Scene { errors: 1, ..BOTH },
    ),
    long(
        "two messages in flight, a control message comes twice",
        Scene {
            repeats: 1,
            rails: 1,
            ..BOTH
        },
    ),
    long(
        "three messages, cut and empty",
        Scene {
            messages: &[(300, 140), (0, 10), (10, 0)],
            eager_max: Some(5),
            ..P
        },
    ),
    long(
        "connect, with two control messages that come twice",
        Scene {
            repeats: 2,
            ..CONNECT
        },
    ),
    long("a lane turns busy", Scene { busy: 1, ..P }),
    long(
        "a lane turns busy while sides close",
        Scene { busy: 1, ..CLOSE },
    ),
    long(
        "a lane turns busy while connecting",
        Scene { busy: 1, ..CONNECT },
    ),
];
