use super::{TemplateError, expand, parse_ids};

#[test]
fn ids_are_lists_and_ranges() {
    assert_eq!(parse_ids("1-4"), Ok(vec![1, 2, 3, 4]));
    assert_eq!(parse_ids("1-2, 7,9 - 10"), Ok(vec![1, 2, 7, 9, 10]));
    assert_eq!(parse_ids("0-65535").map(|ids| ids.len()), Ok(65_536));
}

#[test]
fn bad_ids_are_refused() {
    assert_eq!(parse_ids("4-1"), Err(TemplateError::Ids("4-1".into())));
    assert_eq!(parse_ids(""), Err(TemplateError::Ids("".into())));
    assert_eq!(parse_ids("1-70000"), Err(TemplateError::Ids("1-70000".into())));
    assert_eq!(parse_ids("1-4, 3"), Err(TemplateError::Twice(3)));
}

#[test]
fn templates_expand() {
    assert_eq!(expand("10.77.1.{id}", 3).as_deref(), Ok("10.77.1.3"));
    assert_eq!(expand("127.0.0.1:{7100+id}", 15).as_deref(), Ok("127.0.0.1:7115"));
    assert_eq!(expand("{ id - 1 }/{id}", 1).as_deref(), Ok("0/1"));
    assert_eq!(expand("plain", 1).as_deref(), Ok("plain"));
}

#[test]
fn bad_templates_are_refused() {
    assert_eq!(expand("{ip}", 1), Err(TemplateError::Sum("ip".into())));
    assert_eq!(expand("{}", 1), Err(TemplateError::Sum("".into())));
    assert_eq!(expand("{id+}", 1), Err(TemplateError::Sum("id+".into())));
    assert_eq!(expand("{id", 1), Err(TemplateError::Open));
    assert_eq!(expand("{id-2}", 1), Err(TemplateError::Value { text: "id-2".into(), id: 1 }));
    assert!(expand("{9999999999999999999999}", 1).is_err());
    assert!(expand("{9223372036854775807+id}", 1).is_err());
}
