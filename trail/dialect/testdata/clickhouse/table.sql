CREATE TABLE events (
    user String,
    time DateTime64(3, 'UTC'),
    event LowCardinality(String),
    quantity Nullable(Int64),
    paid Nullable(Bool),
    country LowCardinality(String),
    device LowCardinality(String),
    plan LowCardinality(String),
    item LowCardinality(String),
    price Nullable(Float64),
    campaign LowCardinality(String)
)
ENGINE = MergeTree
ORDER BY (xxHash64(user), user, time)
