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
            intDiv(toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli(began), 604800000) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'open'
          AND time >= began
          AND toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli(began) < 4838400000
    ),
    came AS (
        SELECT user, groupBitOr(bitShiftLeft(toUInt64(1), period)) AS bits
        FROM returns
        GROUP BY user
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(8)
    ),
    counted AS (
        SELECT toMonday(began) AS cohort, bits, count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, bits
    )
SELECT
    cohort,
    sum(n) AS users,
    k AS period,
    sumIf(n, ifNull(bitTest(bits, k), 0)) AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
