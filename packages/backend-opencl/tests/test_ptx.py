"""Instructions of one architecture, carried past the compiler as comments."""

from __future__ import annotations

from convfind_backend_opencl.ptx import limit_registers, retarget

PTX = b"""//
.version 8.8
.target sm_90, texmode_independent
.address_size 64
\t// begin inline asm
\t//@wgmma.commit_group.sync.aligned;
\t// end inline asm
\t//@{.reg .pred p; setp.ne.b32 p, %r1, 0; }
"""


def test_marked_instructions_come_to_life() -> None:
    text = retarget(PTX)
    assert b".target sm_90a, texmode_independent\n" in text
    assert b"\t// begin inline asm\n\twgmma.commit_group.sync.aligned;\n" in text
    assert b"\t{.reg .pred p; setp.ne.b32 p, %r1, 0; }\n" in text
    assert retarget(text) == text


def test_what_has_no_mark_stays_as_it_is() -> None:
    plain = PTX.replace(b"//@", b"// ")
    assert retarget(plain) == plain


def test_other_architectures_stay_as_they_are() -> None:
    for target in (b"sm_80", b"sm_90a", b"sm_100"):
        other = PTX.replace(b"sm_90", target)
        assert retarget(other) == other
    assert retarget(b"\x7fELF //@ not text") == b"\x7fELF //@ not text"


def test_a_limit_of_registers_follows_the_size_of_the_work_group() -> None:
    kernels = b".entry a(\n)\n.reqntid 128, 1, 1\n{\n}\n.entry b(\n)\n{\n}\n"
    limited = limit_registers(kernels, ("-cl-mad-enable", "-cl-nv-maxrregcount=168"))
    assert limited == kernels.replace(b"1, 1\n", b"1, 1\n.maxnreg 168\n")
    assert limit_registers(kernels, ("-cl-mad-enable",)) == kernels
