CREATE TABLE events (
    "user" VARCHAR,
    "time" TIMESTAMP,
    event VARCHAR,
    quantity BIGINT,
    paid BOOLEAN,
    country VARCHAR,
    device VARCHAR,
    plan VARCHAR,
    item VARCHAR,
    price DOUBLE,
    campaign VARCHAR
)
