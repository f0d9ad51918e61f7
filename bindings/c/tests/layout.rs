//! The binary interface is the committed one, `abi.txt`: the sizes of all structs, the offsets of
//! their fields, the values of all constants, and the declarations of all functions, as a C
//! compiler sees `include/evb.h`.
//!
//! `EVB_BLESS=1 cargo test --test layout` writes it. A change of a line that is there already
//! breaks programs that were built before, and needs another soname (build.rs).

use std::{env, error::Error, fmt::Write as _, fs, path::Path, process::Command};

/// The declarations of a header.
#[derive(Default)]
struct Declared {
    /// Names of constants: macros with a value, and constants of enums.
    constants: Vec<String>,
    /// Each struct with the names of its fields.
    structs: Vec<(String, Vec<String>)>,
    functions: Vec<String>,
}

#[test]
fn the_binary_interface_is_the_committed_one() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let declared = read(&fs::read_to_string(folder.join("include/evb.h"))?);
    assert!(declared.structs.len() >= 12 && declared.constants.len() > 30 && declared.functions.len() > 30);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (scratch.join("layout.c"), scratch.join("layout"));
    fs::write(&source, stub(&declared))?;
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let include = folder.join("include");
    let warnings = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"];
    let mut compile = Command::new(compiler);
    compile.args(warnings).arg("-I").arg(include).arg(source).arg("-o").arg(&program);
    assert!(compile.status()?.success(), "the stub does not compile");
    let output = Command::new(&program).output()?;
    let mut found = String::from_utf8(output.stdout)?;
    for function in &declared.functions {
        writeln!(found, "{function}")?;
    }
    let path = folder.join("abi.txt");
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(&path, &found)?;
    }
    let committed = fs::read_to_string(&path)?;
    let gone: Vec<_> = committed.lines().filter(|line| !found.lines().any(|new| new == *line)).collect();
    let new: Vec<_> = found.lines().filter(|line| !committed.lines().any(|old| old == *line)).collect();
    assert!(gone.is_empty() && new.is_empty(), "not any more: {gone:#?}; not in abi.txt: {new:#?}");
    Ok(())
}

/// Reads a header in the form that cbindgen writes.
fn read(header: &str) -> Declared {
    let code: String = header.lines().map(|line| line.split("//").next().unwrap_or_default()).fold(
        String::new(),
        |mut code, line| {
            code.push_str(line.trim_end());
            code.push('\n');
            code
        },
    );
    let mut declared = Declared::default();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("#define ").and_then(|rest| rest.split_once(' ')) {
            declared.constants.push(name.0.to_owned());
        } else if line.starts_with("enum ") {
            let body = lines.by_ref().take_while(|line| !line.starts_with("};"));
            let names = body.filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
            declared.constants.extend(names.map(|(name, _)| name.to_owned()));
        } else if let Some(name) =
            line.strip_prefix("typedef struct ").and_then(|rest| rest.strip_suffix(" {"))
        {
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with('}')).collect();
            declared.structs.push((name.to_owned(), fields(&body.join(" "))));
        } else if line.contains('(')
            && !line.starts_with([' ', '#', '/', '}'])
            && !line.starts_with("typedef")
        {
            let mut words = line.to_owned();
            while !words.ends_with(");") {
                let Some(next) = lines.next() else { break };
                words = format!("{words} {}", next.trim());
            }
            // Only a library for tests has this function.
            if !words.contains("evb_provoke") {
                declared.functions.push(words.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    declared
}

/// Returns the names of the fields in the body of a struct.
fn fields(body: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut field) = (0, String::new());
    for c in body.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' if depth == 0 => {
                let pointed =
                    field.split_once("(*").map(|(_, rest)| rest.split(')').next().unwrap_or_default());
                let plain = || field.split('[').next()?.rsplit([' ', '*']).next();
                names.extend(pointed.or_else(plain).map(str::to_owned));
                field.clear();
                continue;
            }
            _ => {}
        }
        field.push(c);
    }
    names
}

/// Writes a C program that prints the interface.
fn stub(declared: &Declared) -> String {
    let mut code = String::from("#include <stdio.h>\n#include \"evb.h\"\nint main(void) {\n");
    for name in &declared.constants {
        let _ = writeln!(code, "printf(\"{name} = %llu\\n\", (unsigned long long){name});");
    }
    for (name, fields) in &declared.structs {
        let _ = writeln!(code, "printf(\"{name}: %zu bytes\\n\", sizeof({name}));");
        for field in fields {
            let _ = writeln!(
                code,
                "printf(\"{name}.{field}: %zu bytes at %zu\\n\", sizeof((({name} *)0)->{field}), offsetof({name}, {field}));"
            );
        }
    }
    code.push_str("return 0;\n}\n");
    code
}
