WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
          AND plan = 'plus'
          AND time >= TIMESTAMP '2026-01-12 00:00:00'
        GROUP BY user
    ),
    returns AS (
        SELECT
            user,
            (time::DATE - DATE '1970-01-01') - (began::DATE - DATE '1970-01-01') AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    came AS (
        SELECT user, list_distinct(list(period)) AS came_in
        FROM returns
        WHERE period < 70
        GROUP BY user
    ),
    periods AS (
        SELECT range AS k
        FROM range(70)
    ),
    counted AS (
        SELECT date_trunc('month', began)::DATE AS cohort, came_in, count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, came_in
    )
SELECT
    cohort,
    sum(n)::BIGINT AS users,
    k AS period,
    coalesce(sum(n) FILTER (list_contains(came_in, k)), 0)::BIGINT AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
