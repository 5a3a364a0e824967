WITH
    starts AS (
        SELECT user, min(time) AS began
        FROM events
        WHERE event = 'signup'
        GROUP BY user
    ),
    returns AS (
        SELECT user, (epoch_ms(time) - epoch_ms(began)) // 604800000 AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'open'
          AND time >= began
          AND time < began + INTERVAL 28 DAY
    ),
    came AS (
        SELECT user, max(period) AS last
        FROM returns
        GROUP BY user
    ),
    periods AS (
        SELECT range AS k
        FROM range(4)
    ),
    counted AS (
        SELECT date_trunc('week', began)::DATE AS cohort, last, count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, last
    )
SELECT
    cohort,
    sum(n)::BIGINT AS users,
    k AS period,
    coalesce(sum(n) FILTER (last >= k), 0)::BIGINT AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
