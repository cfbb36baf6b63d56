//! A client against a small broker on real sockets.

mod broker;
mod overload;
mod reconnection;
mod requests;
mod support;
mod ways;
