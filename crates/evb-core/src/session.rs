//! Sessions: how a role joins a run and stays in it, and how a builder admits lanes.
//!
//! ```text
//! Joining ──── first Welcome, first roster ───► Start ───► the role's machine, which owns
//!     ├─ Membership   its connection to the supervisor
//!     ├─ LaneDialing  one for each lane of a source
//!     └─ Admission    the check of lanes that are opened at a builder
//! ```
//!
//! The types of this module decide when to connect, to which peer, and with which greeting. The
//! driver opens the connection, performs the handshake, and reports the result.

mod dial;
mod outcome;
mod heard;
mod facts;
mod lines;
mod membership;
mod joining;
mod attendance;
mod dialing;
mod admission;

pub use admission::{
    Admission, CONTROL_UNACKNOWLEDGED, GREETINGS, HANDSHAKE_TIMEOUT, LANE_UNACKNOWLEDGED, greeting_patience,
};
pub use attendance::{Attendance, AttendanceOutput, leaving};
pub use dial::{Dial, Target};
pub use dialing::{LaneDialing, OPENING};
pub use facts::{FrontEndCounts, ReportFacts, last_files};
pub use heard::{DialFailure, DialFault, Heard};
pub use joining::{Joining, JoiningOutput, Start};
pub use lines::Lines;
pub use membership::{Member, Membership, MembershipEvent, MembershipOutput, Registered};
pub use outcome::{Participation, RoleFault, RunIdentity, RunOutcome};
