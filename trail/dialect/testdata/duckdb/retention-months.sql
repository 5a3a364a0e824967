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
            (year(timezone('America/New_York', timezone('UTC', time))) * 12 + month(timezone('America/New_York', timezone('UTC', time)))) - (year(timezone('America/New_York', timezone('UTC', began))) * 12 + month(timezone('America/New_York', timezone('UTC', began)))) AS period
        FROM events JOIN starts USING (user)
        WHERE event = 'visit'
          AND time >= began
    ),
    sizes AS (
        SELECT
            date_trunc('month', timezone('America/New_York', timezone('UTC', began)))::DATE AS cohort,
            count(*) AS size
        FROM starts
        GROUP BY cohort
    ),
    came AS (
        SELECT
            user,
            date_trunc('month', timezone('America/New_York', timezone('UTC', began)))::DATE AS cohort,
            bit_or(1::BIGINT << period::INTEGER) AS bits
        FROM returns
        WHERE period < 3
        GROUP BY user, cohort
    ),
    periods AS (
        SELECT range AS k
        FROM range(3)
    )
SELECT
    cohort,
    any_value(size) AS users,
    k AS period,
    count(*) FILTER ((bits >> k::INTEGER) & 1 = 1) AS returned
FROM sizes CROSS JOIN periods LEFT JOIN came USING (cohort)
GROUP BY cohort, k
ORDER BY cohort, k
