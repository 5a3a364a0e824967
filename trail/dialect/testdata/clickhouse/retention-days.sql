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
        SELECT user, toInt32(toDate32(time)) - toInt32(toDate32(began)) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    came AS (
        SELECT user, groupUniqArray(period) AS came_in
        FROM returns
        WHERE period < 70
        GROUP BY user
    ),
    periods AS (
        SELECT number AS k
        FROM numbers(70)
    ),
    counted AS (
        SELECT toStartOfMonth(began) AS cohort, came_in, count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, came_in
    )
SELECT
    cohort,
    sum(n) AS users,
    k AS period,
    sumIf(n, has(came_in, k)) AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
SETTINGS enable_extended_results_for_datetime_functions = 1, join_use_nulls = 1
