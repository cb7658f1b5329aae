#!/usr/bin/env python3
"""Checks pages that `plan --html` has written, without a browser: page_check.py FILE... [--quiet]

Well-formed; nothing from outside; no script; every section there and every drawing with a name for who cannot
see it; ids that are referred to exist; nothing wider than a telephone by its markup; no number that is none;
a size that a mail can carry. Prints a line a fault; exits with 1 if there is one.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

BYTES_MAX = 8 << 20
PHONE_WIDTH = 320  # pixels that an element may ask for
SECTIONS = {"layers", "methods"}  # of every page about a plan
PLAN_SECTIONS = {"stages", "pipeline", "reasons", "throughput", "units"}  # of a page whose plan can run
# Those of plan --trees.
TREES_SECTIONS = {"batch", "batch-learning", "one", "one-learning", "exact", "transfers",
                  "synchronous", "cards", "inputs"}
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "h1", "h2", "p", "div",
    "span", "b", "i", "strong", "small", "br", "dl", "dt", "dd", "ol", "li", "table", "thead", "tbody", "tr", "th",
    "td", "input", "label",
    "details", "summary", "svg", "path", "rect", "line", "circle", "text",
}
REFERENCES = {"href", "src", "srcset", "data", "action", "formaction", "poster", "background",
              "{http://www.w3.org/1999/xlink}href"}
NUMERIC = {"x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "cx", "cy", "r", "width", "height"}
NUMBER = re.compile(r"-?\d+(\.\d+)?%?$")


def name_of(element):
    return element.tag.rsplit("}", 1)[-1]


def check_style(style, fault):
    for pattern in ("@import", "url(", "expression(", "</"):
        if pattern in style:
            fault(f"the style has {pattern}")
    for query in ("prefers-color-scheme:dark", "max-width"):
        if query not in style:
            fault(f"the style does not ask for {query}")
    if style.count("{") != style.count("}"):
        fault("braces of the style do not match")


def check_numbers(element, fault):
    name = name_of(element)
    for key, value in element.attrib.items():
        if name in ("svg", "rect", "line", "circle", "text") and key in NUMERIC:
            if not NUMBER.match(value):
                fault(f"<{name}> has {key}=\"{value}\"")
            elif value.endswith("%") and not 0 <= float(value[:-1]) <= 100.01:
                fault(f"<{name}> lies outside: {key}=\"{value}\"")
            elif key in ("width", "x", "x1", "x2", "cx") and not value.endswith("%") and float(value) > PHONE_WIDTH:
                fault(f"<{name}> is wider than a telephone: {key}=\"{value}\"")
        if key == "style":
            for width in re.findall(r"width:\s*([^;]+)", value):
                if not re.match(r"\d+(\.\d+)?%$", width) or float(width[:-1]) > 100.01:
                    fault(f"<{name}> has width {width}")
        if key == "d" and not re.match(r"([ML]-?\d+(\.\d+)? -?\d+(\.\d+)?)+$", value):
            fault(f"<path> has d=\"{value[:60]}\"")
    if name == "rect" and element.get("x", "").endswith("%") and element.get("width", "").endswith("%"):
        if float(element.get("x")[:-1]) + float(element.get("width")[:-1]) > 100.02:
            fault(f"<rect> ends outside: x={element.get('x')} width={element.get('width')}")


def check_element(element, inside, fault):
    """`inside`: the elements around it, outermost first."""
    name = name_of(element)
    if name not in ALLOWED and not (name == "title" and inside):
        fault(f"<{name}> is not one of the elements that a page has")
    for key, value in element.attrib.items():
        if key.startswith("on"):
            fault(f"<{name}> has the handler {key}")
        if key in REFERENCES:
            fault(f"<{name}> refers to something: {key}=\"{value}\"")
        if "javascript:" in value.lower():
            fault(f"<{name}> has {key}=\"{value}\"")
    if (name == "svg" and element.get("aria-hidden") != "true"
            and not (element.get("role") == "img" and element.get("aria-label"))):
        fault("a drawing has no name (role=img, aria-label)")
    if name == "table":
        box = [e for e in inside if "box" in e.get("class", "").split()]
        if not box or not box[-1].get("aria-label") or box[-1].get("tabindex") != "0":
            fault("a table is not in a box that scrolls, has a name and takes the keyboard")
    if name == "section" and not element.get("aria-labelledby"):
        fault("a section has no heading")
    check_numbers(element, fault)


def walk(element, inside, fault):
    check_element(element, inside, fault)
    for child in element:
        walk(child, inside + [element], fault)


def check_page(path):
    faults = []
    fault = faults.append
    with open(path, "rb") as file:
        raw = file.read()
    if len(raw) > BYTES_MAX:
        fault(f"{len(raw)} bytes; at most {BYTES_MAX}")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"not UTF-8: {error}"]
    if not text.startswith("<!DOCTYPE html>\n"):
        fault("does not begin with <!DOCTYPE html>")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        return faults + [f"not well-formed: {error}"]
    walk(root, [], fault)

    elements = list(root.iter())
    named = lambda name: [e for e in elements if name_of(e) == name]
    ids = [e.get("id") for e in elements if e.get("id")]
    for id_ in {i for i in ids if ids.count(i) > 1}:
        fault(f"the id {id_} is there {ids.count(id_)} times")
    for e in elements:
        for key in ("aria-labelledby", "for"):
            if e.get(key) and e.get(key) not in ids:
                fault(f"{key}=\"{e.get(key)}\" refers to nothing")
    metas = named("meta")
    if not any(m.get("charset") == "utf-8" for m in metas):
        fault("does not say its character set")
    if not any(m.get("name") == "viewport" and "width=device-width" in m.get("content", "") for m in metas):
        fault("does not say its viewport")
    if root.get("lang") != "en" or len(named("h1")) != 1 or not named("title"):
        fault("language, title or the one main heading is missing")
    for style in named("style"):
        check_style(style.text, fault)
    for where in re.findall(r"(?:https?:)?//[^\s\"'<>]+", re.sub(r"xmlns=\"[^\"]*\"", "", text)):
        if not any(where in (e.text or "") + (e.tail or "") for e in elements if name_of(e) != "style"):
            fault(f"refers to {where}")
    sections = {e.get("id") for e in named("section")}
    wanted = (TREES_SECTIONS if "transfers" in sections
              else SECTIONS | (PLAN_SECTIONS if "stages" in sections else set()))
    for missing in sorted(wanted - sections):
        fault(f"the section {missing} is missing")
    words = " ".join(t for e in elements if name_of(e) != "style" for t in (e.text or "", e.tail or ""))
    if re.search(r"(?<![\w.])-?(nan|inf)(?![\w.])", words):
        fault("a number is nan or inf")
    return faults


def main(arguments):
    paths = [a for a in arguments if a != "--quiet"]
    if not paths:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    failed = 0
    for path in paths:
        faults = check_page(path)
        for fault in faults:
            print(f"{path}: {fault}")
        failed += bool(faults)
        if not faults and "--quiet" not in arguments:
            print(f"{path}: good")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
