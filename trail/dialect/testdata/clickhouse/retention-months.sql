WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'visit'
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            (toYear(toTimeZone(time, 'America/New_York')) * 12 + toMonth(toTimeZone(time, 'America/New_York'))) - (toYear(toTimeZone(began, 'America/New_York')) * 12 + toMonth(toTimeZone(began, 'America/New_York'))) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    came AS (
        SELECT user, groupBitOr(bitShiftLeft(toUInt64(1), period)) AS bits
        FROM returns
        WHERE period < 3
        GROUP BY user
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(3)
    ),
    counted AS (
        SELECT
            toStartOfMonth(toTimeZone(began, 'America/New_York')) AS cohort,
            bits,
            count(*) AS n
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
