"""Compares the JSON schema of the configuration with the reader in evbd.

Usage: schema.py REPOSITORY EVBD TAPLO SCRATCH EACH, where TAPLO is the program or "-". Of the changed
configurations, each EACHth is tested. Prints a line `RESULT 1 what` for every check that passes, and
`RESULT 0 what` for one that fails.

Every configuration in the examples and in the documentation must satisfy the schema. Then each of
them is changed in one place after the other, and evbd says about every changed one if it is valid:

- what the schema refuses, evbd must refuse too: an editor must not mark what is right;
- what evbd refuses because of an unknown or a missing key, or because of a value of a wrong type,
  the schema must refuse too: that is its purpose.
"""

import concurrent.futures
import copy
import json
import pathlib
import re
import subprocess
import sys
import tomllib

import jsonschema

repository, evbd, taplo, scratch, each = sys.argv[1:]
repository, scratch = pathlib.Path(repository), pathlib.Path(scratch)
SCHEMA = repository / "dist/evb.schema.json"
schema = json.loads(SCHEMA.read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)

SUPERVISOR = '[supervisor]\nlisten = "127.0.0.1:7000"\ntrigger = { kind = "periodic", rate = "2 kHz" }\n'
SOURCE = '[[source]]\nid = 1\ninput = { kind = "generator", size = "1 kB" }\n'
BUILDER = '[[builder]]\nid = 1\nlisten = "127.0.0.1:7101"\nsink = "null"\n'
# Values of every type, none of which is a text: if evbd refuses one, it is for its type or range.
WRONG = [True, 7, -1, 1.5, [], {}]
# Whole numbers at the ends of every range that the schema knows, and beyond them.
ENDS = sorted({end + step for end in re.findall(r'"m(?:in|ax)imum": (\d+)', SCHEMA.read_text()) for end in [int(end)] for step in (-1, 0, 1)})
# What evbd says if the schema could have known it.
KNOWABLE = re.compile(r"unknown key|has no `|not a possible value|is a bare number|`, not |is (text|a whole number|a number|true or false|a list|a table), not")


def around(text):
    """Completes a block of the documentation to a configuration."""
    for head, default in (("[supervisor]", SUPERVISOR), ("[[source]]", SOURCE), ("[[builder]]", BUILDER)):
        if head not in text:
            text += "\n" + default
    return text


def configurations():
    """Yields names and texts of all configurations in examples and documentation."""
    for path in [*sorted((repository / "examples").glob("*.toml")), repository / "dist/evb.toml"]:
        yield path.name, path.read_text()
    for page in sorted((repository / "docs").rglob("*.md")):
        for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.S), 1):
            if re.search(r"^\[\[?(run|supervisor|control|network|shaping|security|source|builder)\b", block, re.M):
                yield f"{page.stem}-{number}", around(block)


def toml(value):
    """Writes a value as TOML, tables in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(of)}" for key, of in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def places(value, path=()):
    """Yields the paths of all values."""
    for key, of in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(of, (dict, list)):
            yield from places(of, (*path, key))


def changed(config, path, change):
    """Returns a copy with another value at a path."""
    config = copy.deepcopy(config)
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    change(inner, path[-1])
    return config


def mutants(config):
    """Yields what is changed, and the changed configuration."""
    for path in places(config):
        where = ".".join(map(str, path))
        yield f"without {where}", changed(config, path, lambda inner, key: inner.pop(key))
        of = config
        for key in path:
            of = of[key]
        ends = ENDS if type(of) is int else []
        for value in [*WRONG, "zzz", *ends]:
            yield f"{where} = {toml(value)}", changed(config, path, lambda inner, key: inner.__setitem__(key, value))
        if isinstance(path[-1], str):
            yield f"unknown key beside {where}", changed(config, path, lambda inner, key: inner.update(zzz=1))


def says(number, config):
    """Returns the code with which evbd ends, and its message."""
    path = scratch / f"{number}.toml"
    path.write_text("".join(f"{json.dumps(key)} = {toml(of)}\n" for key, of in config.items()))
    run = subprocess.run([evbd, "check", path], capture_output=True, text=True, timeout=60)
    path.unlink()
    return run.returncode, run.stderr


def result(passes, what):
    print(f"RESULT {int(passes)} {what}")


valid, parsed, unequal = 0, [], []
for name, text in configurations():
    config = tomllib.loads(text)
    errors = [f"{'.'.join(map(str, error.path))}: {error.message[:100]}" for error in validator.iter_errors(config)]
    parsed.append((name, text, config))
    if errors:
        print(name, errors)
    valid += not errors
result(valid == len(parsed) > 25, f"the schema accepts all {len(parsed)} configurations of examples and documentation")

seen, cases = set(), []
for name, _, config in parsed:
    for what, mutant in mutants(config):
        key = json.dumps(mutant, sort_keys=True)
        if key not in seen:
            seen.add(key)
            cases.append((f"{name}: {what}", mutant))
cases = cases[:: int(each)]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    answers = list(pool.map(lambda case: says(case[0], case[1][1]), enumerate(cases)))
strict, lax, refused = [], [], 0
for (what, mutant), (code, message) in zip(cases, answers):
    accepts = validator.is_valid(mutant)
    refused += not accepts
    if code == 0 and not accepts:
        strict.append(what)
    # Where a source joins the trigger's group, another section of the file may name the group.
    if code != 0 and accepts and KNOWABLE.search(message) and "has no `trigger_group`" not in message:
        lax.append(f"{what}: {message.splitlines()[0]}")
print(*strict[:20], *lax[:20], sep="\n")
result(not strict and refused > 500, f"evbd refuses all {refused} of {len(cases)} changed configurations that the schema refuses")
result(not lax, f"the schema refuses unknown keys, missing keys and wrong types as evbd does: {len(lax)} differences")

if taplo != "-":
    # An editor's language server, with the schema as an editor finds it.
    def lint(name, text):
        path = scratch / f"{name}.toml"
        path.write_text(f"#:schema file://{SCHEMA}\n{text}")
        return subprocess.run([taplo, "lint", path], capture_output=True, text=True).returncode

    wrong = [name for name, text, _ in parsed if lint(name, text) != 0]
    result(not wrong, f"taplo accepts the same {len(parsed)} configurations {wrong[:5]}")
    bad = ["[run]\nevnts = 1\n", "[run]\nevents = true\n", '[network]\nlink_rate = "1 Gbit"\n', '[shaping]\nmode = "credits"\n']
    missed = [text for text in bad if lint("bad", around(text)) == 0]
    result(not missed, f"taplo refuses {len(bad)} typical mistakes {missed}")
