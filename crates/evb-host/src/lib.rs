//! This host, as an event builder needs it: what its kernel, cores and network devices can do
//! ([`doctor`]), how they are set up for it ([`provision`]), how much a switch port can hold
//! ([`probe_buffer`]), the key that it shares with the others ([`keygen`]), and which roles of a
//! configuration belong here ([`here`]).

pub mod memory;
pub mod kernel;
pub mod cores;
pub mod ethtool;
pub mod keygen;
pub mod here;
pub mod doctor;
pub mod provision;
pub mod probe_buffer;
