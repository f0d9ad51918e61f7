//! Sessions: how a role comes into a run, stays in it, and who may open a lane.
//!
//! ```text
//!   Joining ──── first Welcome, first roster ───► Start ───► the role's machine, which owns from then on
//!                                                            ├─ Membership   its connection to the supervisor
//!                                                            ├─ LaneDialing  one for each lane of a source
//!                                                            └─ Admission    who may open a lane at a builder
//! ```
//!
//! None of them opens a connection: they say when, to whom, and with which words. Whoever drives them connects, shakes hands,
//! and tells what came of it.

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
    Admission, CONTROL_UNACKNOWLEDGED, GREETING_PATIENCE, GREETINGS, HANDSHAKE_TIMEOUT, LANE_UNACKNOWLEDGED,
};
pub use attendance::{Attendance, AttendanceOutput};
pub use dial::{Dial, Target};
pub use dialing::{LaneDialing, OPENING};
pub use facts::ReportFacts;
pub use heard::{DialFailure, DialFault, Heard};
pub use joining::{Joining, JoiningOutput, Start};
pub use lines::Lines;
pub use membership::{Member, Membership, MembershipOutput, News, Registered};
pub use outcome::{Participation, RoleFault, RunIdentity, RunOutcome};
