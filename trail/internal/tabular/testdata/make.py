# Makes the files of parquet/ with pyarrow: python3 make.py (26.0.1 was used).
# Each has the same six events, written as some program would; see TestWriters.
import datetime as dt
import decimal
import os

import pyarrow as pa
import pyarrow.parquet as pq

N = 6
MS = [1767225600123, 1767225601000, 1767225602999, -1, 1767225604000, 1767225605000]
base = {
    "user_id": pa.array(["ada", "bob", "ada", "cleo", "bob", "dan"]),
    "time": pa.array(MS, pa.timestamp("ms", tz="UTC")),
    "event": pa.array(["view", "view", "cart", "view", "purchase", "view"]),
    "country": pa.array(["KR", None, "KR", "FR", "", "ü本"]),
    "qty": pa.array([1, 2, None, -4, 5, 6], pa.int64()),
    "price": pa.array([0.5, None, 2.25, float("nan"), -1e9, 3.0], pa.float64()),
    "gift": pa.array([True, False, None, True, False, True]),
}


def write(name, columns=None, **options):
    t = pa.table({**base, **(columns or {})})
    pq.write_table(t, os.path.join("parquet", name + ".parquet"), **options)


write("snappy", compression="snappy")
write("plain", use_dictionary=False, compression="none")
write("gzip", compression="gzip")
write("zstd-v2", compression="zstd", data_page_version="2.0")
write("brotli", compression="brotli")
write("lz4", compression="lz4")
write("groups", row_group_size=2, data_page_size=16)
write("checksums", write_page_checksum=True)
required = pa.schema([pa.field("user_id", pa.string(), nullable=False), pa.field("time", pa.timestamp("ms", tz="UTC"), nullable=False), pa.field("event", pa.string(), nullable=False)]
                     + [pa.field(n, base[n].type) for n in ("country", "qty", "price", "gift")])
pq.write_table(pa.table(base).cast(required), "parquet/required.parquet")
US = [m * 1000 + 7 for m in MS]
NS = [m * 1000000 + 999999 for m in MS]
write("time-us", {"time": pa.array(US, pa.timestamp("us"))})
write("time-ns", {"time": pa.array(NS, pa.timestamp("ns"))}, version="2.6")
write("time-int96", {"time": pa.array(NS, pa.timestamp("ns"))}, use_deprecated_int96_timestamps=True)
write("time-int-us", {"time": pa.array(US, pa.int64())})
write("time-text", {"time": pa.array([dt.datetime.fromtimestamp(m / 1000, dt.timezone.utc).isoformat(timespec="milliseconds") for m in MS])})
write("dictionary", {n: base[n].dictionary_encode() for n in ("user_id", "event", "country")})
write("large", {n: base[n].cast(pa.large_string()) for n in ("user_id", "event", "country")})
write("binary", {n: base[n].cast(pa.binary()) for n in ("user_id", "event", "country")})
write("narrow", {"qty": base["qty"].cast(pa.int16()), "price": base["price"].cast(pa.float32())})
write("delta", use_dictionary=False, column_encoding={"user_id": "DELTA_BYTE_ARRAY", "time": "DELTA_BINARY_PACKED", "event": "DELTA_LENGTH_BYTE_ARRAY", "country": "DELTA_BYTE_ARRAY", "qty": "DELTA_BINARY_PACKED", "price": "BYTE_STREAM_SPLIT", "gift": "RLE"}, data_page_version="2.0")
write("others", {
    "user_id": pa.array([1, 2, 1, 3, 2, 4], pa.uint64()),
    "day": pa.array([dt.date(2026, 1, 5), None, dt.date(1969, 12, 31), None, None, None]),
    "at": pa.array([1767225600123456, None, -1, None, None, None], pa.timestamp("us")),
    "clock": pa.array([dt.time(1, 2, 3, 4), None, None, None, None, None]),
    "cents": pa.array([decimal.Decimal("12.34"), None, decimal.Decimal("-0.05"), None, None, None], pa.decimal128(10, 2)),
    "small": pa.array([255, None, 0, None, None, None], pa.uint8()),
    "huge": pa.array([2**64 - 1, None, 0, None, None, None], pa.uint64()),
    "uuid": pa.array([b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"] + [None] * 5, pa.uuid()),
    "half": pa.array([1.5, None, -2.0, None, None, None], pa.float16()),
    "raw": pa.array([b"\xff\xfe", None, None, None, None, None], pa.binary()),
    "nothing": pa.nulls(N),
    "who": pa.array([{"name": "x", "age": 3}, None, {"name": None, "age": 4}, None, None, None]),
    "tags": pa.array([["a"], None, [], None, None, None]),
})
pq.write_table(pa.table({"user": base["user_id"], "time": pa.array(MS, pa.timestamp("ms")), "event": base["event"]}).slice(0, 0), "norows.parquet")
