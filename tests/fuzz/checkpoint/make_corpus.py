#!/usr/bin/env python3
"""Writes corpus/, which the fuzz programs of checkpoints start from: what Python's torch.save writes, and what nobody should.

    .venv/bin/python tests/fuzz/checkpoint/make_corpus.py

A file is a whole .pt archive, the data.pkl of one, or an IDX file; the name says which. In a data.pkl alone, storage 0 has
16 bytes and every other one 64 (checkpoint_fuzz.cc).
"""

import collections
import io
import pathlib
import pickle
import struct
import zipfile

import torch
from torch import nn

CORPUS = pathlib.Path(__file__).parent / "corpus"

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool, torch.complex64, torch.complex128]


def filled(dtype, size=64):
    """A 1-D tensor of `size` bytes."""
    return torch.ones(size // dtype.itemsize, dtype=dtype)


def momentum(make_optimizer):
    torch.manual_seed(1)
    model = nn.Linear(4, 1)
    optimizer = make_optimizer(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    return model, optimizer


def of_torch():
    """name -> what torch.save is given."""
    base = filled(torch.float32, 16)
    wide = filled(torch.float32)
    model, sgd = momentum(lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9))
    _, adam = momentum(lambda parameters: torch.optim.AdamW(parameters, 0.1, amsgrad=True))
    steps = torch.optim.lr_scheduler.MultiStepLR(sgd, [2, 2, 5])
    mix = filled(torch.complex64)
    return {
        "floats": [filled(torch.float32, 16)] + [filled(dtype) for dtype in DTYPES[1:4]],
        "integers": [filled(torch.int64, 16)] + [filled(dtype) for dtype in DTYPES[5:9]],
        "bools": [filled(torch.bool, 16), filled(torch.bool)],
        "complex": [filled(torch.complex64, 16), filled(torch.complex128)],
        "unknown_dtypes": [filled(torch.float8_e4m3fn, 16), filled(torch.uint32)],
        "views": [base, base[1:3], base.view(2, 2).t(), base[0].expand(5, 7), wide.view(4, 4)[1:3, ::2], base[2], base[4:]],
        "marks": [filled(torch.complex64, 16).conj(), mix.conj().imag, mix.real],
        "empty": [torch.empty(0), torch.empty(5, 0, 3), torch.empty(0, 1 << 40)],
        "containers": {"text": "é", "none": None, "yes": True, "no": False, 7: -1, 1.5: [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
                       "big": [255, 256, 65535, 65536, -(1 << 31), 1 << 31, (1 << 63) - 1, -(1 << 63)], "deep": [[[[{}]]]],
                       "long": "x" * 300},
        "ordered": collections.OrderedDict(a=1, b=collections.Counter([3, 3])),
        "state_dict": model.state_dict(),
        "parameter": [nn.Parameter(filled(torch.float32, 16)), nn.Parameter(filled(torch.float64), requires_grad=False)],
        "sgd": sgd.state_dict(),
        "adamw": adam.state_dict(),
        "schedule": steps.state_dict(),
        "rng": {"cpu": torch.get_rng_state()},
        "module": nn.Linear(1, 1),
        "sparse": torch.eye(2).to_sparse(),
    }


def saved(value, **options):
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def records(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def zipped(content, **options):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as file:
        for name, data in content:
            file.writestr(zipfile.ZipInfo(name), data, compress_type=options.get("compression"))
    return stream.getvalue()


def patched(archive, signature, offset, layout, *values):
    """The archive with other numbers at `offset` of its first header with this signature."""
    changed = bytearray(archive)
    struct.pack_into(layout, changed, archive.index(signature) + offset, *values)
    return bytes(changed)


def zip64(archive):
    """The same with a zip64 end record, and every entry's numbers in its extra field."""
    end = archive.rindex(b"PK\5\6")
    count, _, start = struct.unpack_from("<HII", archive, end + 10)
    entries, at = b"", start
    for _ in range(count):
        entry = bytearray(archive[at:at + 46])
        packed, size, name, extra, comment = struct.unpack_from("<IIHHH", entry, 20)
        offset, = struct.unpack_from("<I", entry, 42)
        struct.pack_into("<IIHHH", entry, 20, 0xffffffff, 0xffffffff, name, 28, 0)
        struct.pack_into("<I", entry, 42, 0xffffffff)
        entries += bytes(entry) + archive[at + 46:at + 46 + name] + struct.pack("<HHQQQ", 1, 24, size, packed, offset)
        at += 46 + name + extra + comment
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(entries), start)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, start + len(entries), 1)
    last = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
    return archive[:start] + entries + end64 + locator + last


def evil_archives():
    plain = zipped([("a/data.pkl", b"\x80\x02]q\0."), ("a/byteorder", b"little"), ("a/data/0", bytes(16))])
    local, central, end = b"PK\3\4", b"PK\1\2", b"PK\5\6"
    folder_end = plain.rindex(end)
    yield "plain", plain
    yield "zip64", zip64(plain)
    yield "zip64_far", patched(zip64(plain), b"PK\6\6", 48, "<Q", (1 << 64) - 46)
    yield "zip64_count", patched(zip64(plain), b"PK\6\6", 32, "<Q", (1 << 64) - 1)
    yield "zip64_locator", patched(zip64(plain), b"PK\6\7", 8, "<Q", (1 << 64) - 1)
    yield "zip64_size", patched(zip64(plain), central, 46 + len("a/data.pkl") + 4, "<Q", (1 << 64) - 1)
    yield "zip64_no_extra", patched(patched(plain, central, 20, "<II", 0xffffffff, 0xffffffff), central, 42, "<I", 0xffffffff)
    yield "deflated", zipped([("a/data.pkl", b"\x80\x02]q\0." + bytes(99))], compression=zipfile.ZIP_DEFLATED)
    yield "same_name_twice", zipped([("a/data.pkl", b"]."), ("a/data.pkl", b"}."), ("b/data.pkl", b").")])
    yield "same_bytes_twice", plain[:folder_end] + plain[plain.index(central):folder_end] + patched(
        plain[folder_end:], end, 8, "<HHI", 6, 6, 2 * (folder_end - plain.index(central)))
    yield "count_too_high", patched(plain, end, 8, "<HH", 0xffff, 0xffff)
    yield "no_entries", patched(plain, end, 8, "<HH", 0, 0)
    yield "truncated_directory", plain[:plain.index(central) + 50] + plain[folder_end:]
    yield "truncated", plain[:folder_end - 3]
    yield "comment", plain[:-2] + b"\x04\0four"
    yield "far_record", patched(plain, central, 42, "<I", len(plain) - 29)
    yield "far_directory", patched(plain, end, 16, "<I", len(plain) - 45)
    yield "long_record", patched(plain, central, 20, "<II", 150, 150)
    yield "two_sizes", patched(plain, central, 20, "<II", 6, 5)
    yield "long_local_name", patched(plain, local, 26, "<HH", 0xffff, 0xffff)
    yield "long_central_name", patched(plain, central, 28, "<HHH", 0xffff, 0xffff, 0xffff)
    yield "checksum", patched(plain, central, 16, "<I", 1)
    yield "no_program", zipped([("a/version", b"3")])
    yield "no_name", zipped([("", b"]."), ("/", b"]."), ("a/", b"].")])
    yield "big_endian", zipped([("a/data.pkl", b"]."), ("a/byteorder", b"big")])
    yield "directory_only", plain[folder_end:]
    yield "legacy", saved([1, "two"], _use_new_zipfile_serialization=False)
    yield "protocol_4", saved({"a": torch.ones(2)}, pickle_protocol=4)


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(sizes, strides, offset=0, kind=b"FloatStorage", count=4, key=b"0", mark=None):
    """torch._utils._rebuild_tensor_v2(...): where the numbers may be anything."""
    storage = b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(key) + text(b"cpu") + number(count) + b"tQ"
    numbers = b"".join(b"(" + b"".join(map(number, values)) + b"t" for values in (sizes, strides))
    marks = b"" if mark is None else b"}" + text(mark) + b"\x88s"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + numbers + b"\x89}" + marks + b"tR"


def array(sizes, content, kind=b"u1"):
    """numpy's of Python 2, as in CIFAR's files; `content` is the program of its bytes."""
    return (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1(" + b"".join(map(number, sizes)) +
            b"tcnumpy\ndtype\nU" + bytes([len(kind)]) + kind + b"K\0K\1\x87R(K\3U\1|NNNK\0tb\x89" + content + b"tb")


def byte_string(content):
    return b"T" + struct.pack("<I", len(content)) + content


def evil_programs():
    start, far = b"\x80\x02", 1 << 62
    tensors = {
        "reaches_beyond": tensor([4], [1], 1),
        "reaches_far": tensor([2, 2], [far, far]),
        "wraps": tensor([3, 3], [far, far], far),
        "negative_stride": tensor([4], [-1], 3),
        "negative_size": tensor([-1, 0], [1, 1]),
        "least_size": tensor([1, -(1 << 63)], [1, 1]),
        "least_stride": tensor([-(1 << 63)], [-(1 << 63)]),
        "negative_offset": tensor([1], [1], -1),
        "offset_only": tensor([], [], 4),
        "countless": tensor([1 << 40, 1 << 40], [0, 0]),
        "stride_0": tensor([1 << 30], [0]),
        "most_elements": tensor([1 << 59], [0], kind=b"ComplexDoubleStorage", count=1),
        "n_by_0": tensor([far, 0], [1, 1]),
        "0_by_n": tensor([0, 1 << 59], [far, far], far),
        "many_dimensions": tensor([1] * 70, [0] * 70),
        "few_strides": tensor([2, 2], [1]),
        "wrong_count": tensor([1], [1], count=5),
        "no_storage": tensor([1], [1], key=b"none"),
        "unknown_type": tensor([1], [1], kind=b"QInt8Storage"),
        "conj_float": tensor([4], [1], mark=b"conj"),
        "neg_bool": tensor([4], [1], kind=b"BoolStorage", count=16, mark=b"neg"),
        "neg_byte": tensor([4], [1], kind=b"ByteStorage", count=16, mark=b"neg"),
        "neg_half": tensor([4], [1], kind=b"HalfStorage", count=8, mark=b"neg"),
        "unknown_mark": tensor([4], [1], mark=b"pos"),
    }
    for name, program in tensors.items():
        yield "tensor_" + name, start + program + b"."
    arrays = {
        "other_type": array([2, 3], byte_string(b"\1" * 24), b"f4"),
        "short": array([2, 3], byte_string(b"12345")),
        "wraps": array([1 << 32, 1 << 32, 6], byte_string(b"123456")),
        "negative": array([-2, -3], byte_string(b"123456")),
        "n_by_0": array([1 << 58, 0], byte_string(b"")),
        "0_by_n": array([0, 1 << 62, 1 << 62], byte_string(b"")),
        "no_bytes": array([6], b"K\6"),
        "never_filled": b"cnumpy.core.multiarray\n_reconstruct\n)R",
        "type_left": b"cnumpy\ndtype\nU\2u1\x85R",
    }
    for name, program in arrays.items():
        yield "array_" + name, start + program + b"."
    yield "array_bomb", start + b"](" + byte_string(b"x" * 10000) + b"q\0" + array([10000], b"h\0") * 50 + b"e."
    yield "array_filled_twice", start + array([1], byte_string(b"1")) + b"(K\1)tb."
    yield "same_storage_two_types", (start + b"(" + tensor([4], [1]) + tensor([2], [1], kind=b"DoubleStorage", count=2) +
                                     tensor([16], [1], kind=b"DoubleStorage", count=99) + b"t.")
    doubled = b"](K\0K\0e" + b"".join(b"q%c0](h%ch%ce" % (i, i, i) for i in range(40))
    yield "memo_bomb", start + doubled + b"."
    yield "long_text_often", start + b"](" + text(b"x" * 1000) + b"q\0" + b"h\0" * 100 + b"e."
    yield "contains_itself", start + b"]q\0h\0a."
    yield "dict_contains_itself", start + b"}q\0K\1h\0s."
    yield "tuple_contains_itself", start + b"]q\0h\0\x85a."
    yield "deep", start + b"]" * 250 + b"a" * 249 + b"."
    yield "deep_tuple", start + b")" + b"\x85" * 250 + b"."
    yield "long_promised", start + b"X\xff\xff\xff\xff."
    yield "wide_integer", start + b"\x8a\xff" + bytes(255) + b"."
    yield "empty_integer", start + b"\x8a\0."
    yield "get_nothing", start + b"h\x05."
    yield "put_mark", start + b"(q\0."
    yield "put_far", start + b"]r\xff\xff\xff\xffj\xff\xff\xff\xff."
    yield "pop_nothing", start + b"0."
    yield "mark_left", start + b"(]."
    yield "no_mark", start + b"]u."
    yield "odd_items", start + b"}(K\1u."
    yield "append_to_tuple", start + b")K\1a."
    yield "dict_as_key", start + b"}}K\1s."
    yield "reduce_nothing", start + b")R."
    yield "reduce_text", start + text(b"a") + b")R."
    yield "build_list", start + b"]}b."
    yield "system", start + b"cos\nsystem\n" + text(b"true") + b"\x85R."
    yield "global_left", start + b"ctorch\nFloatStorage\n."
    yield "storage_left", start + b"(" + text(b"storage") + b"ctorch\nByteStorage\n" + text(b"0") + text(b"cpu") + b"K\x10tQ."
    yield "short_storage", start + b"(" + text(b"storage") + b"tQ."
    yield "never_ends", start + b"]q\0"


def idx(sizes, data, magic=None):
    return struct.pack(">I", 0x800 + len(sizes) if magic is None else magic) + struct.pack(f">{len(sizes)}I", *sizes) + data


def idx_files():
    yield "images", idx([2, 3, 4], bytes(range(24)))
    yield "labels", idx([10], bytes(range(10)))
    yield "none", idx([0, 28, 28], b"")
    yield "short", idx([2, 3, 4], bytes(23))
    yield "long", idx([2, 3, 4], bytes(25))
    yield "countless", idx([0xffffffff] * 3, bytes(8))
    yield "wraps", idx([1 << 31, 1 << 31, 4], b"")
    yield "floats", idx([1, 1, 1], bytes(4), 0xd03)
    yield "header_only", idx([1, 1, 1], b"")[:10]


def corpus():
    for name, value in of_torch().items():
        archive = saved(value)
        yield f"torch_{name}.pt", archive
        if name != "rng":
            yield f"torch_{name}.pkl", records(archive)["archive/data.pkl"]
    for protocol in 0, 1, 4:
        yield f"python_protocol_{protocol}.pkl", pickle.dumps({"a": [1, 2.5, "text", None, True, 1 << 70]}, protocol=protocol)
    yield "python2_array.pkl", b"\x80\2}U\4data" + array([2, 3], byte_string(b"123456")) + b"s."
    for name, content in evil_archives():
        yield f"evil_{name}.pt", content
    for name, content in evil_programs():
        yield f"evil_{name}.pkl", content
    for name, content in idx_files():
        yield f"{name}.idx", content


if __name__ == "__main__":
    CORPUS.mkdir(exist_ok=True)
    for old in CORPUS.iterdir():
        old.unlink()
    for name, content in corpus():
        (CORPUS / name).write_bytes(content)
