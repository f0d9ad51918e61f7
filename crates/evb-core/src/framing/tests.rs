use super::*;

fn stated(length: FrameField, counted: LengthCounts) -> Extent {
    Extent::Stated { length, unit: 1, counted }
}

#[test]
fn numbers_are_read_by_order_bits_and_mask() {
    let header = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
    let field = FrameField::new(1, 3);
    let little = FrameField { order: ByteOrder::Little, ..field };
    assert_eq!((field.read(&header), little.read(&header)), (Some(0x22_3344), Some(0x44_3322)));
    assert_eq!(FrameField::new(0, 8).read(&header), Some(0x1122_3344_5566_7788));
    let bits = FrameField { low: 4, high: 15, ..FrameField::new(0, 4) };
    assert_eq!((bits.read(&header), bits.width()), (Some(0x334), 12));
    let masked = FrameField { mask: 0xff, ..bits };
    assert_eq!((masked.read(&header), masked.width()), (Some(0x34), 8));
    assert_eq!((0..5).map(|offset| bits.bits_at(offset)).collect::<Vec<_>>(), [0, 0, 0xff, 0xf0, 0]);
    let little = FrameField { order: ByteOrder::Little, ..bits };
    assert_eq!((0..5).map(|offset| little.bits_at(offset)).collect::<Vec<_>>(), [0xf0, 0xff, 0, 0, 0]);
    assert_eq!(field.read(&header[..3]), None);
}

#[test]
fn a_length_counts_what_is_declared() {
    let length = FrameField::new(2, 2);
    let header = [0, 0, 0, 20, 0, 0, 0, 0];
    for (counted, expected) in
        [(LengthCounts::Payload, 20 + 8 + 2), (LengthCounts::Frame, 20), (LengthCounts::Rest, 24)]
    {
        let mut layout = FrameLayout::new(8, stated(length, counted));
        layout.trailer = 2;
        assert_eq!(layout.length_of(&header), Some(expected));
    }
    let layout = FrameLayout::new(8, stated(length, LengthCounts::Frame));
    assert_eq!(layout.length_of(&[0, 0, 0, 7, 0, 0, 0, 0]), None, "shorter than the header");
    let wide = Extent::Stated { length: FrameField::new(0, 8), unit: 8, counted: LengthCounts::Payload };
    assert_eq!(FrameLayout::new(8, wide).length_of(&[0xff; 8]), None, "more than can be");
}

/// A change of a layout, and what the refusal says.
type Mistake<'a> = (&'a dyn Fn(&mut FrameLayout), &'a str);

#[test]
fn layouts_that_cannot_be_are_refused() {
    let length = FrameField::new(2, 2);
    let good = FrameLayout::new(8, stated(length, LengthCounts::Payload));
    let refused = |change: &dyn Fn(&mut FrameLayout)| {
        let mut layout = good.clone();
        change(&mut layout);
        layout.check().unwrap_err().to_string()
    };
    assert_eq!(good.check(), Ok(()));
    let magic = |at, value: &[u8]| Some(Mark::new(at, value));
    let cases: [Mistake<'_>; 13] = [
        (&|layout| layout.header = 3, "`length` ends 4 bytes after the start"),
        (&|layout| layout.header = 5000, "`header` is more than 4096"),
        (&|layout| layout.magic = magic(0, &[1, 2, 3]), "`length` and `magic` overlap in byte 2"),
        (&|layout| layout.magic = magic(0, &[]), "`magic` must have 1 to 16 bytes"),
        (&|layout| layout.magic = magic(7, &[1, 2]), "`magic` ends 9 bytes after"),
        (&|layout| layout.counter = Some(FrameField::new(3, 2)), "`counter` and `length` overlap"),
        (
            &|layout| layout.clock = Some(FrameField { low: 9, high: 8, ..FrameField::new(4, 4) }),
            "`clock` has no bits",
        ),
        (
            &|layout| layout.clock = Some(FrameField { mask: 0, ..FrameField::new(4, 4) }),
            "`clock` has no bits",
        ),
        (&|layout| layout.clock = Some(FrameField::new(4, 9)), "`clock` has no bits"),
        (&|layout| layout.end = vec![1, 2], "`end` has 2 bytes, but the trailer has 0"),
        (
            &|layout| (layout.extent, layout.trailer) = (Extent::Delimited(vec![10]), 1),
            "`trailer` is not possible in a frame that ends with a delimiter",
        ),
        (&|layout| layout.extent = Extent::Delimited(vec![]), "`delimiter` must have 1 to 16"),
        (&|layout| (layout.extent, layout.header) = (Extent::Fixed(0), 0), "has no bytes"),
    ];
    for (change, reason) in cases {
        let said = refused(change);
        assert!(said.contains(reason), "{said}");
    }
    // Two fields of one word.
    let mut layout = good;
    layout.counter = Some(FrameField { high: 23, ..FrameField::new(4, 4) });
    layout.clock = Some(FrameField { low: 24, ..FrameField::new(4, 4) });
    assert_eq!(layout.check(), Ok(()));
}
