use super::*;
use crate::tests::good;

#[test]
fn a_layout_is_drawn_byte_by_byte() {
    let config = good(
        "[[source]]\nids = \"1-2\"\ninput = { kind = \"unix\", path = \"{id}\", frame = { magic = \"eb90\", header = 12, trailer = 4, \
         end = \"55aa\", align = 8, length = { at = 2, bytes = 2, counts = \"rest\", unit = 4 }, \
         counter = { at = 4, bits = \"0-11\", order = \"little\" }, clock = { at = 5, bytes = 7, bits = \"4-55\", order = \"little\" } } }\n\
         counter = { bits = 12 }\nclock = { rate = \"1 MHz\", bits = 52 }\n\
         [[source]]\nid = 3\ninput = { kind = \"unix\", path = \"3\", frame = { header = 200, payload = \"64 B\" } }\n",
    );
    assert_eq!(
        frames(&config),
        "
Frame of sources 1-2
    byte  +0  +1  +2  +3  +4  +5  +6  +7
       0   M   M   L   L   N  NT   T   T
       8   T   T   T   T
      12   payload
           trailer of 4 B, the last ones 55 aa
           padding to a multiple of 8 B
  M magic eb 90
  L length, 16 bits, big-endian, counts everything behind it in units of 4 B
  N counter, 12 bits, little-endian
  T clock, 52 bits, little-endian
  the whole frame without padding is the fragment
  lost frames are found by the counter, and confirmed by the clock

Frame of source 3
    byte  +0  +1  +2  +3  +4  +5  +6  +7
       0   .   .   .   .   .   .   .   .
     200   payload of 64 B
  the whole frame without padding is the fragment
  not protected: there is neither counter nor clock, so that a lost frame shifts all later ones into wrong events; declare the one that the board sends
"
    );
}
