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
          AND time < began + INTERVAL 56 DAY
    ),
    sizes AS (
        SELECT date_trunc('week', began)::DATE AS cohort, count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT
            user,
            date_trunc('week', began)::DATE AS cohort,
            bit_or(1::BIGINT << period::INTEGER) AS bits
        FROM returns
        WHERE period < 8
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT range AS k
        FROM range(8)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    count(*) FILTER ((bits >> k::INTEGER) & 1 = 1) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
