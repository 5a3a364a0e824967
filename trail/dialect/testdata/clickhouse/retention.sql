WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            began,
            intDiv(toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli(began), 604800000) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'open'
          AND time >= began
          AND toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli(began) < 4838400000
    ),
    sizes AS (
        SELECT toMonday(began) AS cohort, count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT
            user,
            toMonday(began) AS cohort,
            groupBitOr(bitShiftLeft(toUInt64(1), period)) AS bits
        FROM returns
        WHERE period < 8
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(8)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    countIf(bitTest(bits, k)) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
