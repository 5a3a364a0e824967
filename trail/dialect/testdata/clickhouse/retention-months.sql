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
            began,
            (toYear(toTimeZone(time, 'America/New_York')) * 12 + toMonth(toTimeZone(time, 'America/New_York'))) - (toYear(toTimeZone(began, 'America/New_York')) * 12 + toMonth(toTimeZone(began, 'America/New_York'))) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    sizes AS (
        SELECT
            toStartOfMonth(toTimeZone(began, 'America/New_York')) AS cohort,
            count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT
            user,
            toStartOfMonth(toTimeZone(began, 'America/New_York')) AS cohort,
            groupBitOr(bitShiftLeft(toUInt64(1), period)) AS bits
        FROM returns
        WHERE period < 3
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(3)
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
