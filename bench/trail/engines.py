"""DuckDB or ClickHouse behind a pipe, from the packages duckdb and chdb-core of PyPI:

    PYTHONPATH=FOLDER python3 engines.py duckdb|clickhouse

It reads one JSON object a line from standard input and answers each by one line on
standard output, in order. Requests, with defaults in brackets:

    {"op":"open","db":FILE,"write":false,"threads":2}
        opens a database, having closed the one before; with write it is made if it is
        not there, else it is open to read. Answers [[version of the engine]].
    {"op":"exec","sqls":[SQL,...],"threads":n [as before]}
        runs statements. Answers no rows.
    {"op":"query","sql":SQL,"threads":n [as before]}
        answers the rows of the statement.
    {"op":"close"}
        closes the database; the process goes on, and ends at the end of the input.

An answer is {"rows":[[...],...],"elapsed_us":N,"peak_rss":N} or {"error":TEXT}. elapsed_us is
the time of the request within the engine, with its rows made into objects (DuckDB) or
lines of JSON (ClickHouse), without what this script does to send them. peak_rss is the most
bytes of memory that the process had while this request ran (on Linux, else 0). Rows have
null, booleans, numbers, strings, lists; times are "2026-01-05 00:00:00" in UTC. They are what
Statement.Answer of trail/dialect takes.
"""

import datetime
import decimal
import json
import os
import sys
import time


class DuckDB:
    def __init__(self):
        import duckdb

        self.duckdb, self.db = duckdb, None

    def open(self, path, write):
        self.close()
        self.db = self.duckdb.connect(path, read_only=not write)
        self.db.execute("SET GLOBAL TimeZone = 'UTC'")
        return self.duckdb.__version__

    def close(self):
        if self.db is not None:
            self.db.close()
        self.db = None

    def threads(self, n):
        self.db.execute("SET threads = %d" % n)

    def exec(self, sql):
        self.db.execute(sql)

    def query(self, sql):
        rows = self.db.execute(sql).fetchall()
        return lambda: [[plain(v) for v in row] for row in rows]


class ClickHouse:
    def __init__(self):
        from chdb import session

        self.session, self.db = session, None

    def open(self, path, write):
        self.close()
        self.db = self.session.Session(path)
        self.db.query("CREATE DATABASE IF NOT EXISTS bench")
        self.db.query("USE bench")
        return self.query("SELECT version()")()[0][0]

    def close(self):
        if self.db is not None:
            self.db.close()
        self.db = None

    def threads(self, n):
        self.db.query("SET max_threads = %d" % n)

    def exec(self, sql):
        self.db.query(sql)

    def query(self, sql):
        lines = self.db.query(sql, "JSONCompactEachRow")
        return lambda: [json.loads(line) for line in str(lines).splitlines() if line]


def plain(value):
    """A value of DuckDB as one that JSON can carry; times as text in UTC."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass  # the peak is then of the whole process


def peak():
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def do(engine, r):
    op = r["op"]
    if op == "open":
        version = engine.open(r["db"], r.get("write", False))
        if r.get("threads"):
            engine.threads(r["threads"])
        return lambda: [[version]]
    if op == "close":
        engine.close()
        return lambda: []
    if engine.db is None:
        raise ValueError("no database is open: send open first")
    if r.get("threads"):
        engine.threads(r["threads"])
    if op == "exec":
        for sql in r["sqls"]:
            engine.exec(sql)
        return lambda: []
    if op == "query":
        return engine.query(r["sql"])
    raise ValueError("op is %r, want open, exec, query or close" % op)


def main():
    # What an engine prints by itself must not be among the answers.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine = {"duckdb": DuckDB, "clickhouse": ClickHouse}[sys.argv[1]]()
    for line in sys.stdin:
        reset_peak()
        answer, began = {}, time.perf_counter()
        try:
            rows = do(engine, json.loads(line))
            answer["elapsed_us"] = int((time.perf_counter() - began) * 1e6)
            answer["peak_rss"] = peak()
            answer["rows"] = rows()
        except Exception as e:  # it is the answer
            answer = {"error": "%s" % e}
        out.write(json.dumps(answer) + "\n")
        out.flush()
    engine.close()


main()
