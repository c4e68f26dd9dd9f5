//! Control messages, decoded (protocol 2c.3 to 2c.5).

use ofi_rdma::wire::MessageType;
use ofi_rdma::wire::close::Close;
use ofi_rdma::wire::conn::Conn;
use ofi_rdma::wire::ctrl::Ctrl;
use ofi_rdma::{Base, Dialect as _, EpName, KeyWidth};

use ofi_sendrecv::wire::Connect;

use super::line::What;

/// What is known of a domain when a message is decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// Data rails: how many keys a CTRL has.
    pub(super) rails: u8,
    /// Format of addresses.
    pub(super) format: u32,
}

/// The message as a line of its own kind; one that is none says why.
pub(super) fn describe(sign: char, message: &[u8], context: Context) -> What {
    let decoded = match MessageType::of(message) {
        Ok(MessageType::Conn | MessageType::ConnResp) => conn(sign, message, context),
        Ok(MessageType::Ctrl | MessageType::CtrlNoCompletion) => ctrl(sign, message, context),
        Ok(MessageType::Close) => close(sign, message),
        Err(kind) => Err(format!("type {kind} is no message")),
    };
    let what = decoded.unwrap_or_else(|why| What::new(sign, "rubbish").text("why", why));
    what.number("length", message.len() as u64)
}

fn conn(sign: char, message: &[u8], context: Context) -> Result<What, String> {
    let conn = Conn::decode(message).map_err(|e| e.to_string())?;
    let (verb, remote) = if conn.is_response {
        ("CONN_RESP", "sender")
    } else {
        ("CONN", "listener")
    };
    let list = |names: &[EpName], used: u8| {
        let used = names.iter().take(usize::from(used));
        let shown = used.map(|n| {
            ofi_trace::show_address(context.format, n.bytes.get(..n.len.into()).unwrap_or(&[]))
        });
        shown.collect::<Vec<_>>().join(",")
    };
    let what = What::new(sign, verb)
        .number("rails", conn.rails.into())
        .number("control_rails", conn.control_rails.into())
        .number("id", conn.local_id.into())
        .number(remote, conn.remote_id.into())
        .text("control", list(&conn.control_names, conn.control_rails))
        .text("data", list(&conn.data_names, conn.rails));
    Ok(match conn.capabilities {
        Some(word) => what
            .number("version", word.version.into())
            .hex("flags", word.flags.into()),
        None => what,
    })
}

const KEYS: [&str; 4] = ["key0", "key1", "key2", "key3"];

fn ctrl(sign: char, message: &[u8], context: Context) -> Result<What, String> {
    let (ctrl, width) = Ctrl::decode(message, context.rails).map_err(|e| e.to_string())?;
    let verb = if ctrl.no_completion {
        "CTRL_NC"
    } else {
        "CTRL"
    };
    let what = What::new(sign, verb)
        .number("seq", ctrl.seq.into())
        .number("sender", ctrl.comm_id.into())
        .number("room", ctrl.buff_len.into())
        .hex("addr", ctrl.buff_addr);
    let keys = KEYS.iter().zip(ctrl.keys).take(context.rails.into());
    let what = keys.fold(what, |what, (name, key)| what.hex(name, key));
    Ok(match width {
        KeyWidth::Short => what.text("keys", "short"),
        KeyWidth::Long => what,
    })
}

fn close(sign: char, message: &[u8]) -> Result<What, String> {
    let close = Close::decode(message).map_err(|e| e.to_string())?;
    Ok(What::new(sign, "CLOSE")
        .number("sender", close.send_comm_id.into())
        .number("ctrls", close.ctrl_count))
}

/// The connect message of SENDRECV (protocol 2c.10).
pub(super) fn connect(sign: char, message: &[u8], context: Context) -> What {
    match Connect::decode(message) {
        Ok(connect) => {
            let name = connect.name;
            let name = name.bytes.get(..name.len.into()).unwrap_or(&[]);
            What::new(sign, "connect")
                .text("name", ofi_trace::show_address(context.format, name))
                .number("to_self", connect.to_self.into())
        }
        Err(why) => What::new(sign, "rubbish").text("why", format!("{why:?}")),
    }
}

/// The parts of CQ data; the upper half is a length between peers of ours (docs/protocol.md).
pub(super) fn immediate(what: What, data: u64) -> What {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low half is what is wanted"
    )]
    let fields = Base::decode_imm(data as u32);
    let what = what
        .number("nseg", fields.nseg.into())
        .number("receiver", fields.comm.into())
        .number("seq", fields.seq.into());
    match ofi_rdma::wire::capability::length_in(data) {
        Some(told) => what.number("told", told),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::line::Field;

    const CONTEXT: Context = Context {
        rails: 4,
        format: 2,
    };

    fn field(what: &What, name: &str) -> Option<Field> {
        let found = what.fields.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| value.clone())
    }

    /// The vector of protocol 2c.4.
    #[test]
    fn the_ctrl_of_the_protocol_document() {
        let bytes = [
            0x52, 0x55, 0xf3, 0xaa, 0x44, 0x33, 0x22, 0x11, 8, 7, 6, 5, 4, 3, 2, 1, 0xa3, 0xa2,
            0xa1, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd3, 0xd2, 0xd1, 0xd0,
        ];
        let what = describe('<', &bytes, CONTEXT);
        assert_eq!((what.sign, what.verb), ('<', "CTRL"));
        assert_eq!(field(&what, "seq"), Some(Field::Number(0x155)));
        assert_eq!(field(&what, "sender"), Some(Field::Number(0x2ABCD)));
        assert_eq!(field(&what, "room"), Some(Field::Number(0x1122_3344)));
        assert_eq!(field(&what, "key3"), Some(Field::Hex(0xD0D1_D2D3)));
        assert_eq!(field(&what, "keys"), Some(Field::Text("short".to_owned())));
    }

    /// The vector of protocol 2c.5.
    #[test]
    fn the_close_of_the_protocol_document() {
        let bytes = [
            4, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x33, 0x33, 3,
            0, 0, 0, 0, 0,
        ];
        let what = describe('>', &bytes, CONTEXT);
        assert_eq!(what.verb, "CLOSE");
        assert_eq!(field(&what, "sender"), Some(Field::Number(0x33333)));
        assert_eq!(
            field(&what, "ctrls"),
            Some(Field::Number(0x1122_3344_5566_7788))
        );
    }

    #[test]
    fn a_conn_names_both_sides_and_every_endpoint() {
        let mut bytes = [0; 528];
        bytes[..16].copy_from_slice(&[1, 0, 2, 0, 1, 0, 0, 0, 0x11, 0x11, 1, 0, 0x22, 0x22, 2, 0]);
        let address = [2, 0, 0x11, 0x51, 10, 0, 0, 9];
        for at in [16, 272, 336] {
            bytes[at..at + 8].copy_from_slice(&address);
            bytes[at + 56] = 16;
        }
        let what = describe('<', &bytes, CONTEXT);
        assert_eq!(what.verb, "CONN_RESP");
        assert_eq!(field(&what, "id"), Some(Field::Number(0x11111)));
        assert_eq!(field(&what, "sender"), Some(Field::Number(0x22222)));
        let both = "10.0.0.9:4433,10.0.0.9:4433".to_owned();
        assert_eq!(field(&what, "data"), Some(Field::Text(both)));
    }

    #[test]
    fn what_is_no_message_says_why() {
        for bytes in [&[] as &[u8], &[7; 30], &[2; 19], &[0; 100], &[4; 2]] {
            let what = describe('<', bytes, CONTEXT);
            assert_eq!(what.verb, "rubbish", "{bytes:?}");
            assert!(field(&what, "why").is_some());
        }
    }

    #[test]
    fn an_immediate_in_its_parts() {
        let what = immediate(What::new('<', "segment"), 0x1_4AAF_3555);
        let parts = [
            ("nseg", 4),
            ("receiver", 0x2ABCD),
            ("seq", 0x155),
            ("told", 0),
        ];
        for (name, value) in parts {
            assert_eq!(field(&what, name), Some(Field::Number(value)), "{name}");
        }
    }
}
