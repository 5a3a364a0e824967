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
          AND time < began + INTERVAL 56 DAY
    ),
    came AS (
        SELECT user, bit_or(1::BIGINT << period::INTEGER) AS bits
        FROM returns
        GROUP BY user
    ),
    periods AS (
        SELECT range AS k
        FROM range(8)
    ),
    counted AS (
        SELECT date_trunc('week', began)::DATE AS cohort, bits, count(*) AS n
        FROM starts LEFT JOIN came USING (user)
        GROUP BY cohort, bits
    )
SELECT
    cohort,
    sum(n)::BIGINT AS users,
    k AS period,
    coalesce(sum(n) FILTER ((bits >> k::INTEGER) & 1 = 1), 0)::BIGINT AS returned
FROM counted CROSS JOIN periods
GROUP BY cohort, k
ORDER BY cohort, k
