WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
          AND plan = 'plus'
          AND time >= toDateTime64('2026-01-12 00:00:00.000', 3, 'UTC')
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            began,
            toInt32(toDate32(time)) - toInt32(toDate32(began)) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    sizes AS (
        SELECT toStartOfMonth(began) AS cohort, count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT user, toStartOfMonth(began) AS cohort, period AS in_period
        FROM returns
        WHERE period < 70
        GROUP BY user, cohort, in_period
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(70)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    countIf(in_period = k) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
