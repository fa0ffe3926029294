//! The daemon through its HTTP interface, as the built program.

mod access;
mod adapters;
mod api;
mod approvals;
mod audit;
mod bad_calls;
mod bad_input;
pub mod client;
mod events;
mod granted;
mod limits;
mod moving;
mod openapi;
mod orphans;
mod revocation;
mod running;
mod slots;
mod starting;
mod stuck;
pub mod support;
mod trace;
mod visibility;
mod workers;
