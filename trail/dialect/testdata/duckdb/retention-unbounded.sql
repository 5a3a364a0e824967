WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    ),
    returns AS (
        SELECT user, began, (epoch_ms(time) - epoch_ms(began)) // 604800000 AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'open'
          AND time >= began
          AND time < began + INTERVAL 28 DAY
    ),
    sizes AS (
        SELECT date_trunc('week', began)::DATE AS cohort, count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT user, date_trunc('week', began)::DATE AS cohort, max(period) AS last
        FROM returns
        WHERE period < 4
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT range AS k
        FROM range(4)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    count(*) FILTER (last >= k) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
