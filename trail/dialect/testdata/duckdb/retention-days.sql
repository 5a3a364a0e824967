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
            began,
            date_diff('day', DATE '1970-01-01', date_trunc('day', time)::DATE) - date_diff('day', DATE '1970-01-01', date_trunc('day', began)::DATE) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    sizes AS (
        SELECT date_trunc('month', began)::DATE AS cohort, count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT user, date_trunc('month', began)::DATE AS cohort, period AS in_period
        FROM returns
        WHERE period < 70
        GROUP BY user, cohort, in_period
    ),
    periods AS (
        SELECT range AS k
        FROM range(70)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    count(*) FILTER (in_period = k) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
