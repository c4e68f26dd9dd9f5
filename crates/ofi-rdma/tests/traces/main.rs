//! The worked traces of the protocol text (Appendix B) against one engine, message by message, and
//! what surrounds them. The peer is made of bytes.

mod adopt;
mod bench;
mod close;
mod closing;
mod connect;
mod deadlines;
mod direct;
mod early;
mod hostile;
mod messages;
mod one_sided;
