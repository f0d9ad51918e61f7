//! The host side of an event builder: the capabilities of this host's kernel, cores and network
//! devices ([`doctor`]), the setup of the kernel's traffic control ([`provision`]), the measurement
//! of a switch port's buffer ([`probe_buffer`]), the creation of the key that all hosts share
//! ([`keygen`]), the choice of the configuration's roles that belong to this host ([`here`]), and
//! the check of a configuration before a run ([`check`]).

mod control_groups;
mod socket_buffers;
pub mod memory;
pub mod bandwidth;
pub mod descriptors;
pub mod kernel;
pub mod cores;
pub mod ethtool;
pub mod keygen;
pub mod here;
pub mod check;
pub mod doctor;
pub mod provision;
pub mod probe_buffer;
